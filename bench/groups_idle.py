"""Groups side by side with Apache Kafka: CPU of 1,000 idle consumers, and how long 100 members rebalance.

Usage: ``python -m bench.groups_idle [--systems kafka,barnabas] [--members 1000] [--groups 100]``.
Writes ``bench/results/groups-idle.txt``. All consumers are of one client process (ours, consumer
protocol), with the heartbeats that the coordinator asks for; each of a group's members has one
partition. The figure is the CPU time of the three nodes while nothing is produced.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.group_member import CONSUMER, GroupMemberSettings
from barnabas.host.client import connect
from bench import workloads
from bench.groups import rebalance
from bench.systems import ROOT, SYSTEMS, System


def idle(system: System, members: int, groups: int, seconds: float) -> float:
    """Percent of a core that all nodes use while `members` in `groups` wait for records."""
    per_group, topic = members // groups, "idle"
    settings = ConsumerSettings(group=GroupMemberSettings(protocol=CONSUMER))
    with connect(system.bootstrap) as connected:
        connected.create_topic(topic, partitions=per_group, replication_factor=1)
        consumers = [
            Consumer(connected.client, f"idle-{number % groups}", settings)
            for number in range(members)
        ]
        for consumer in consumers:
            consumer.subscribe([topic])

        def whole() -> bool:
            return all(len(consumer.assignment) == 1 for consumer in consumers)

        deadline = time.monotonic() + 120
        while not whole():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{sum(bool(c.assignment) for c in consumers)} have partitions")
            connected.run_for(500)
        connected.run_for(6_000)  # every member has heard that it is stable
        before, began = system.cpu_seconds(), time.monotonic()
        connected.run_for(seconds * 1000)
        return 100 * (system.cpu_seconds() - before) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--systems", default="barnabas,kafka")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    lines: list[str] = []

    def say(text: str) -> None:
        print(text, flush=True)
        lines.append(text)

    say(f"# python -m bench.groups_idle, load average {os.getloadavg()[0]:.1f} before")
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.systems.split(","):
            system = SYSTEMS[name](Path(scratch) / name)
            try:
                workloads.start(system, measure=False)
                half, whole = rebalance(system, 100)
                say(
                    f"rebalance  {name}: 50 members join in {half:.2f} s, as many again in {whole:.2f} s"
                )
                used = idle(system, options.members, options.groups, options.seconds)
                say(
                    f"idle  {name}: {options.members} consumers in {options.groups} groups:"
                    f" {used:.1f} % of a core"
                )
            finally:
                system.stop()
    (ROOT / "bench" / "results" / "groups-idle.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
