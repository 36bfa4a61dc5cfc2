"""Three real nodes with thousands of partitions of three replicas: created, ready, and a node killed.

"Ready": every partition has a leader that acknowledges a record of our producer with acks=all, and every ISR
is whole. "Leaders back": from kill -9 until the metadata name a living leader for every partition; the other
nodes are asked every 20 ms. Further figures are the slowest answer to a Metadata request for all topics
meanwhile, and the slowest turns of each node's loop.

    python -m bench.many_partitions [--partitions 3000] [--topic-size 100] [--kills 3]
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable

from barnabas.client.admin import NewTopic
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.host.main import LOG_LEVEL_VARIABLE
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.fetch_response import FetchResponse
from bench.wire import ask

POLL_S = 0.02
PATIENCE_S = 120.0
TURNS_SHOWN = 5


def until(condition: Callable[[], bool]) -> float:
    """Seconds until `condition` holds. Ends the program after PATIENCE_S."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE_S:
            raise SystemExit("it does not come to be")
        time.sleep(POLL_S)
    return time.monotonic() - began


class Asker:
    """Asks for the metadata of all topics, and keeps the time of the slowest answer."""

    def __init__(self, client: Connected) -> None:
        self._client = client
        self.slowest_s = 0.0

    def topics(self) -> list[TopicMetadata]:
        began = time.monotonic()
        found = self._client.topics()
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        return found

    def all_of(self, holds: Callable[[object], bool], partitions: int) -> bool:
        """Whether the metadata have at least `partitions` partitions, and `holds` is true of all of them."""
        found = [p for topic in self.topics() for p in topic.partitions.values()]
        return len(found) >= partitions and all(holds(p) for p in found)


def run(partitions: int, topic_size: int, kills: int) -> None:
    names = [f"t{i}" for i in range(partitions // topic_size)]
    with Cluster(nodes=3) as cluster:
        with connect(cluster.bootstrap) as client:
            asker = Asker(client)
            began = time.monotonic()
            topics = [NewTopic(name, topic_size, 3) for name in names]
            for outcome in client.call(client.admin.create_topics(topics)):
                outcome.check()
            print(
                f"created (answered)                {time.monotonic() - began:7.2f} s", flush=True
            )
            wait_for_records(client, names, topic_size)
            print(
                f"every partition took a record     {time.monotonic() - began:7.2f} s", flush=True
            )
            until(lambda: asker.all_of(lambda p: len(p.isr) == 3, partitions))  # type: ignore[attr-defined]
            print(
                f"every ISR is whole                {time.monotonic() - began:7.2f} s", flush=True
            )
            print(f"slowest metadata of everything    {asker.slowest_s:7.2f} s")
            fetch_everything(client)
        for _ in range(kills):
            kill(cluster, partitions)
        for node in cluster.node_ids:
            cluster.terminate(node)
        for node in cluster.node_ids:
            until(lambda node=node: not cluster.is_alive(node))  # type: ignore[misc]
            stops = [line for line in cluster.log_text(node).splitlines() if "node.stopped" in line]
            print(f"node {node} {stops[-1].partition('node.stopped')[2].strip() if stops else '?'}")
            for turn in longest_turns(cluster.log_text(node)):
                print(f"    {turn}")


def longest_turns(log: str) -> list[str]:
    """The slow turns in a node's log with the most CPU time first, at most TURNS_SHOWN.

    The node logs turns that are too long by the clock; the log has those of its former processes as well.
    """
    turns = [line.partition("loop.slow_turn")[2].strip() for line in log.splitlines()]
    return sorted(filter(None, turns), key=cpu_ms, reverse=True)[:TURNS_SHOWN]


def cpu_ms(turn: str) -> float:
    """CPU time of a logged turn, in milliseconds."""
    found = re.search(r"cpu_ms=([0-9.]+)", turn)
    return float(found.group(1)) if found else 0.0


def fetch_everything(client: Connected) -> None:
    """Fetch all partitions of each broker from offset 0 in one request, without a fetch session."""
    led: dict[int, dict[Uuid, list[int]]] = {}
    for topic in client.topics():
        for index, partition in topic.partitions.items():
            led.setdefault(partition.leader, {}).setdefault(topic.topic_id, []).append(index)
    for broker in client.describe_cluster().brokers:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 25,
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(partition=index, partition_max_bytes=1 << 20)
                        for index in indexes
                    ],
                )
                for topic_id, indexes in led.get(broker.node_id, {}).items()
            ],
        )
        began = time.monotonic()
        answer = ask(f"{broker.host}:{broker.port}", request, 17, FetchResponse)
        took = time.monotonic() - began
        count = sum(len(topic.partitions) for topic in answer.responses)
        print(f"full fetch of {count} partitions     {took:7.2f} s", flush=True)


def wait_for_records(client: Connected, names: list[str], size: int) -> None:
    """Produce one record to each partition, and wait for all acknowledgements."""
    with client.producer(ProducerSettings()) as producer:
        for name in names:
            for index in range(size):
                producer.send(ProducerRecord(name, b"x", partition=TopicPartition(name, index)[1]))
        producer.flush()


def kill(cluster: Cluster, partitions: int) -> None:
    """kill -9 of the active controller's node, and its restart; prints the figures of both."""
    with connect(cluster.bootstrap) as client:
        victim = client.call(client.admin.describe_quorum()).leader_id
    alive = [
        at
        for at, node in zip(cluster.bootstrap.split(","), cluster.node_ids, strict=True)
        if node != victim
    ]
    with connect(",".join(alive)) as client:
        asker = Asker(client)
        asker.topics()
        cluster.kill(victim)
        took = until(lambda: asker.all_of(lambda p: p.leader not in (-1, victim), partitions))  # type: ignore[attr-defined]
        print(
            f"kill -9 of the active controller's node {victim}: all leaders back after {took:.2f} s,"
        )
        print(f"    slowest metadata of everything {asker.slowest_s:.2f} s", flush=True)
        cluster.restart(victim)
        back = until(lambda: asker.all_of(lambda p: len(p.isr) == 3, partitions))  # type: ignore[attr-defined]
        print(f"    restarted: every ISR whole after {back:.2f} s", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--partitions", type=int, default=3000)
    parser.add_argument("--topic-size", type=int, default=100)
    parser.add_argument("--kills", type=int, default=3)
    given = parser.parse_args(arguments)
    os.environ[LOG_LEVEL_VARIABLE] = "debug"  # slow turns are logged
    run(given.partitions, given.topic_size, given.kills)


if __name__ == "__main__":
    main(sys.argv[1:])
