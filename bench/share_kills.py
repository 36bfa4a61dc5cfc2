"""A share group of ten loses nothing while its brokers are killed: ``python -m bench.share_kills``.

Every five seconds the leader of a partition, the share coordinator of one, or the group's coordinator dies
(kill -9) and is started again. Ten members of Apache Kafka's clients accept every record and check what they
are given: no record is given or accepted again once its acceptance was answered, each is delivered as often
as the group allows at most, all are given, and at the end the group has no lag. An acceptance whose answer
was lost with a broker is "unanswered": its record is given again, or was accepted. Writes
``bench/results/share-kills.txt``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from bench.share import MEMBERS, prepare, wait_until_ready
from bench.systems import ROOT, Barnabas
from tests.interop.java_programs import Program
from tests.peers import CLASS_PATH

TOPIC, GROUP = "many", "many-workers"
DELIVERIES_MAX = 10
SETTINGS = {
    "share.record.lock.duration.ms": "15000",
    "share.delivery.count.limit": str(DELIVERIES_MAX),
}
KILL_EVERY_S = 5.0
PATIENCE_S = 45
"""Three locks."""
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
ROLES = (
    (TOPIC, "leader"),
    ("__share_group_state", "share coordinator"),
    ("__consumer_offsets", "group coordinator"),
)


def leader_of(client: AdminClient, topic: str, index: int) -> int | None:
    """The node that leads one of the topic's partitions; None while that is not known."""
    try:
        found: Any = client.list_topics(topic, timeout=5).topics[topic].partitions
    except Exception:  # noqa: BLE001 - a broker is dead
        return None
    leader = found[index % len(found)].leader if found else -1
    return None if leader < 0 else int(leader)


def is_in_sync(client: AdminClient) -> bool:
    """Whether all replicas of the topic are in sync."""
    try:
        found: Any = client.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
    except Exception:  # noqa: BLE001 - a broker is dead
        return False
    return all(len(part.isrs) == len(part.replicas) for part in found.values())


def kill_in_turn(system: Barnabas, members: Program, seed: int, late_s: float) -> list[str]:
    """Kill a node in each role until the members are done; what was killed. A kill that is due waits up to
    `late_s` until all replicas are in sync."""
    client = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    killed: list[str] = []
    due = time.monotonic()
    for number in itertools.count(seed):
        due = max(due + KILL_EVERY_S, time.monotonic())
        latest = due + late_s
        while (now := time.monotonic()) < due or (now < latest and not is_in_sync(client)):
            if members.process.poll() is not None:
                return killed
            time.sleep(0.2)
        topic, role = ROLES[number % len(ROLES)]
        node = leader_of(client, topic, number * 7)
        if node is None:
            continue
        os.kill(system.pids()[node], signal.SIGKILL)
        killed.append(role)
        print(f"killed {node}, {role}", flush=True)
        time.sleep(1)
        system.restart(node)
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--late", type=float, default=0, help="seconds that a kill waits for replicas in sync"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="share-kills-") as name:
        directory = Path(name)
        system = Barnabas(directory / "nodes")
        system.start()
        system.launch()
        try:
            wait_until_ready(system.bootstrap)
            prepare(system.bootstrap, TOPIC, GROUP, asked.records, SETTINGS)
            members = Program(
                "ShareMany", system.bootstrap, TOPIC, GROUP, str(MEMBERS), str(asked.records),
                str(PATIENCE_S), log=directory / "members.txt", options=("-Xmx600m",),
            )  # fmt: skip
            try:
                killed = kill_in_turn(system, members, asked.seed, asked.late)
                lines = members.wait_for_all_lines(60)
            finally:
                members.kill()
            left = lag(system.bootstrap)
        finally:
            system.stop()
    return report(asked.records, killed, lines, left)


def lag(bootstrap: str) -> int:
    """The records of the group that are not finished, as Kafka's tool says it. It says "-" of a partition
    whose leader has just died, so it is asked until every leader is back."""
    words = ["--bootstrap-server", bootstrap, "--describe", "--group", GROUP]
    latest = time.monotonic() + PATIENCE_S
    while True:
        said = subprocess.run(
            ["java", "-cp", CLASS_PATH, SHARE_GROUPS, *words],
            check=True, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        rows = [line.split() for line in said.stdout.splitlines()]
        lags = [row[4] for row in rows if len(row) > 4 and row[:2] == [GROUP, TOPIC]]
        if lags and all(text.isdigit() for text in lags):
            return sum(int(text) for text in lags)
        if time.monotonic() > latest:
            raise SystemExit(said.stdout)


def report(records: int, killed: list[str], lines: list[str], left: int) -> int:
    wrong = [line for line in lines if line.split()[0] in ("again", "twice")]
    numbers = map(int, lines[-1].split()[1:])
    accepted, unanswered, never, again, twice, deliveries, took_ms = numbers
    text = (
        f"{records:,} records, {MEMBERS} members, {len(killed)} kills in {took_ms / 1000:.0f} s:"
        f" {accepted:,} accepted, {unanswered:,} given and unanswered, {never} never given, lag {left}"
        f" at the end; {again} given again after their acceptance, {twice} accepted twice;"
        f" delivered {deliveries} times at most (limit {DELIVERIES_MAX})\n"
    )
    print(text, *wrong[:20], sep="\n")
    (ROOT / "bench" / "results" / "share-kills.txt").write_text(text)
    return int(any((never, left, again, twice)) or deliveries > DELIVERIES_MAX)


if __name__ == "__main__":
    sys.exit(main())
