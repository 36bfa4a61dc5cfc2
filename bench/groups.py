"""Group coordinators: how long until a consumer reads, until a large group has rebalanced, and what large
assignments cost.

Usage: ``python -m bench.groups [--systems kafka,barnabas] [--members 1000] [--rounds 5]``. Apache Kafka needs
its files (`make peers`). Writes ``bench/results/groups.txt``.

first-record: milliseconds from subscribe to the first record, on an idle cluster whose topic has records.
rebalance: seconds until every member has its one partition, when half of the members join an empty group, and
when the other half joins the group at rest. All members are in one client process and send the heartbeats
that the coordinator asks for.
assignment: the slowest calls of the coordinator, and the bytes of records that it writes, for 100,000
partitions (Barnabas only).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from barnabas.client.consumers.consumer_protocol_member import ConsumerProtocolMember
from barnabas.client.consumers.group_member import CONSUMER, GroupMemberSettings
from barnabas.host.client import connect
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bench import workloads
from bench.systems import ROOT, SYSTEMS, System

LINES: list[str] = []


def say(text: str) -> None:
    """Print a line, and keep it for the file of results."""
    print(text, flush=True)
    LINES.append(text)


def first_record(system: System, protocol: str, rounds: int) -> list[float]:
    """Milliseconds from subscribe to the first record, of each round."""
    with connect(system.bootstrap) as connected:
        connected.create_topic(f"first-{protocol}", partitions=3, replication_factor=3)
    producer = Producer({"bootstrap.servers": system.bootstrap})
    for index in range(300):
        producer.produce(f"first-{protocol}", b"x", partition=index % 3)
    producer.flush(30)
    found = []
    for round_ in range(rounds + 1):
        consumer = Consumer(
            {
                "bootstrap.servers": system.bootstrap,
                "group.id": f"first-{protocol}-{round_}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        began = time.perf_counter()
        consumer.subscribe([f"first-{protocol}"])
        while True:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                break
        found.append((time.perf_counter() - began) * 1000)
        consumer.close()
    return found[1:]  # the first round may have created the offsets topic


def rebalance(system: System, members: int) -> tuple[float, float]:
    """Seconds until each member has its share: half of `members` in an empty group (two partitions each),
    then all of them (one each)."""
    topic = "large-group"
    with connect(system.bootstrap) as connected:
        connected.create_topic(topic, partitions=members, replication_factor=1)
        owned: dict[int, set[TopicPartition]] = {}

        def join(number: int) -> None:
            mine = owned.setdefault(number, set())

            def receive(parts: list[TopicPartition]) -> None:
                mine.update(parts)
                if balanced():
                    connected.nudge()

            ConsumerProtocolMember(
                connected.client,
                "large",
                [topic],
                GroupMemberSettings(protocol=CONSUMER),
                on_assigned=receive,
                on_revoked=mine.difference_update,
                purpose=f"members {number % 8}",
            ).start()

        def balanced() -> bool:
            share = members // len(owned)
            held = [len(mine) for mine in owned.values()]
            return sum(held) == members and max(held) <= share

        times = []
        for first, last in ((0, members // 2), (members // 2, members)):
            began = time.perf_counter()
            for number in range(first, last):
                join(number)
            if not connected.run_until(balanced, 120_000):
                raise TimeoutError(f"{sum(map(len, owned.values()))} of {members} are owned")
            times.append(time.perf_counter() - began)
    return times[0], times[1]


def assignment(partitions: int, members: int) -> None:
    """The coordinator alone, on a log in memory: how long its calls take, and how much it writes."""
    from tests.unit.group.world import World  # a broker's coordinators on a log in memory

    world = World(1, group_consumer_assignment_interval_ms="0")
    _fill(world.image, partitions)
    world.tell()
    turns: dict[str, list[float]] = {"join": [], "heartbeat": [], "step": []}

    def timed(turn: str, act: Callable[[], object]) -> Any:
        at = time.perf_counter()
        answer = act()
        turns[turn].append((time.perf_counter() - at) * 1000)
        return answer

    epochs: dict[str, int] = {}

    def beat(member_id: str, first: bool) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id)
        if first:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names = ["t"]
            request.topic_partitions = []
        else:
            request.member_epoch = epochs[member_id]
        answer = timed("join" if first else "heartbeat", lambda: world.ask(request))
        assert not answer.error_code, answer
        epochs[member_id] = answer.member_epoch

    for number in range(members):
        beat(f"m{number}", True)
    for _ in range(200):
        timed("step", lambda: world.ports.advance(1))
    for member_id in list(epochs):
        beat(member_id, False)
    sizes = [len(batch) for batch in world.logs[0].batches]
    slowest = ", ".join(f"{turn} {max(took):.0f} ms" for turn, took in turns.items())
    say(
        f"assignment  {partitions} partitions to {members} members:"
        f" {sum(map(sum, turns.values())) / 1000:.2f} s in all; slowest {slowest};"
        f" {sum(sizes)} bytes written, largest batch {max(sizes)}"
    )


def _fill(image: MetadataImage, partitions: int) -> None:
    topic_id = Uuid(b"\0" * 15 + b"\1")
    image.replay(TopicRecord(name="t", topic_id=topic_id))
    for index in range(partitions):
        image.replay(
            PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--systems", default="kafka,barnabas")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    say(f"# python -m bench.groups, load average {os.getloadavg()[0]:.1f} before")
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.systems.split(","):
            system = SYSTEMS[name](Path(scratch) / name)
            try:
                workloads.start(system, measure=False)
                for protocol in ("classic", "consumer"):
                    times = first_record(system, protocol, options.rounds)
                    say(
                        f"first-record  {name}, {protocol}: median {statistics.median(times):.0f} ms,"
                        f" {min(times):.0f} to {max(times):.0f}"
                    )
                half, whole = rebalance(system, options.members)
                say(
                    f"rebalance  {name}: {options.members // 2} members join in {half:.2f} s,"
                    f" as many again in {whole:.2f} s"
                )
            finally:
                system.stop()
    for members in (1, 10, 100):
        assignment(100_000, members)
    (ROOT / "bench" / "results" / "groups.txt").write_text("\n".join(LINES) + "\n")


if __name__ == "__main__":
    main()
