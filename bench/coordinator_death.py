"""What a group loses when its coordinator dies: ``python -m bench.coordinator_death [--rounds 5]``.

Three nodes of Barnabas; a group of one member, of each kind of client in turn: ours and librdkafka's, classic
and consumer protocol. kill -9 of the coordinator, then milliseconds until a commit is acknowledged again.
Beside it the detection: until a surviving node's metadata name another leader of the group's partition. The
difference is what the death costs beyond detection. Writes ``bench/results/coordinator-death.txt``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.broker.coordinator.coordinators import partition_of
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.group_member import GroupMemberSettings
from barnabas.client.network.channels import ChannelError
from barnabas.host.client import BlockingConsumer, Connected, connect
from barnabas.types import OFFSETS_TOPIC
from barnabas.wire.errors import KafkaError
from bench import workloads
from bench.systems import ROOT, Barnabas

GROUP, TOPIC = "death", "death"
OFFSETS_PARTITIONS = 50
PROTOCOLS = ("classic", "consumer")


def leader(connected: Connected) -> int:
    topic = connected.topic(OFFSETS_TOPIC)
    return topic.partitions[partition_of(GROUP, OFFSETS_PARTITIONS)].leader


def until_commits(commit: Callable[[], None]) -> float:
    """When a commit was acknowledged."""
    while True:
        try:
            commit()
            return time.perf_counter()
        except (KafkaException, KafkaError, ChannelError):
            time.sleep(0.005)


def one_death(system: Barnabas, client: str, protocol: str) -> tuple[float, float]:
    """Milliseconds from the kill to another leader in the metadata, and to the next commit."""
    with connect(system.bootstrap) as watcher, connect(system.bootstrap) as own:
        if client == "librdkafka":
            commit, close = _librdkafka(system, protocol)
        else:
            commit, close = _own(own, protocol)
        until_commits(commit)
        dead = leader(watcher)
        detected: list[float] = []

        def watch() -> None:
            while not detected:
                try:
                    if leader(watcher) not in (dead, -1):
                        detected.append(time.perf_counter())
                except (KafkaError, ChannelError):
                    pass
                time.sleep(0.002)

        thread = threading.Thread(target=watch)
        began = time.perf_counter()
        system.kill(dead)
        thread.start()
        committed = until_commits(commit)
        thread.join(30)
        close()
    system.restart(dead)
    workloads.wait_whole(system, TOPIC)
    return (detected[0] - began) * 1000, (committed - began) * 1000


def _librdkafka(system: Barnabas, protocol: str) -> tuple[Callable[[], None], Callable[[], None]]:
    consumer = Consumer(
        {"bootstrap.servers": system.bootstrap, "group.id": GROUP, "group.protocol": protocol,
         "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
         "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    )  # fmt: skip
    consumer.subscribe([TOPIC])
    while not consumer.assignment():
        consumer.poll(0.05)

    def commit() -> None:
        consumer.poll(0)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)

    return commit, consumer.close


def _own(connected: Connected, protocol: str) -> tuple[Callable[[], None], Callable[[], None]]:
    group = GroupMemberSettings(protocol=protocol, heartbeat_interval_ms=500.0)
    settings = ConsumerSettings(auto_offset_reset="earliest", group=group)
    consumer: BlockingConsumer = connected.consumer(GROUP, settings)
    consumer.inner.subscribe([TOPIC])
    while not consumer.inner.assignment or not consumer.inner.is_stable:
        consumer.poll(50.0)

    def commit() -> None:
        connected.call(consumer.inner.commit(dict.fromkeys(consumer.inner.assignment, 1)))

    return commit, consumer.close


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    head = f"# python -m bench.coordinator_death --rounds {options.rounds}"
    lines = [f"{head}, load average {os.getloadavg()[0]:.1f} before"]
    with tempfile.TemporaryDirectory() as scratch:
        system = Barnabas(Path(scratch) / "barnabas")
        try:
            workloads.start(system, measure=False)
            workloads.create_topic(system, TOPIC, partitions=1)
            for client in ("ours", "librdkafka"):
                for protocol in PROTOCOLS:
                    found = [one_death(system, client, protocol) for _ in range(options.rounds)]
                    beyond = [committed - detected for detected, committed in found]
                    lines.append(
                        f"{client}, {protocol}: detected after"
                        f" {statistics.median(d for d, _ in found):.0f} ms (median), commits again after"
                        f" {statistics.median(c for _, c in found):.0f} ms; beyond detection median"
                        f" {statistics.median(beyond):.0f} ms, worst {max(beyond):.0f} ms"
                    )
                    print(lines[-1], flush=True)
        finally:
            system.stop()
    (ROOT / "bench" / "results" / "coordinator-death.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
