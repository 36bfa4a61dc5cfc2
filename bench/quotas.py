"""How exactly a node holds clients to their quotas over 30 s: each kind, on a process that really serves.

Usage: ``python -m bench.quotas [--seconds 30]``. Clients do as much as they can; counted is what they
achieved once what they had saved is used up. Request time is the processor time of a node that has one
client, whose requests are large (the metadata of 4,000 partitions) or small (of one). Prints limit, measured
and ratio, and writes them to ``bench/results/quotas.txt``.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.client.quotas import Entity, alter_quotas
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from barnabas.wire.codec import decode_prefix
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import CreateTopicsResponse
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bench.systems import ROOT
from bench.wire import frame, receive

BYTES, TIME_PERCENT, MUTATIONS, CONNECTIONS = 1_000_000, 10.0, 4.0, 20.0
VALUE = os.urandom(10_000)
ADDRESS = "127.0.0.2"
API_VERSIONS = struct.pack(">hhih5s", 18, 0, 1, 5, b"bench")
SAVED_S = 13.0
"""Longer than any quota is kept: controller mutations are kept for 11 s."""
Count = Callable[[], float]
"""What was achieved so far."""


class Measured(NamedTuple):
    quota: str
    unit: str
    limit: float
    rate: float

    def line(self) -> str:
        ratio = self.rate / self.limit
        return (
            f"{self.quota:26} {self.limit:>12,.0f} {self.rate:>14,.1f} {ratio:>8.3f}  {self.unit}"
        )


class Running:
    """`act` again and again on a thread, until the block ends."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._act()


def address_of(cluster: Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.rpartition(":")
    return host, int(port)


def set_quota(client: Connected, entity: Entity, key: str, value: float) -> None:
    client.call(alter_quotas(client.client, entity, {key: value}))


def of_client(name: str) -> Entity:
    return (("client-id", name),)


def producer(cluster: Cluster) -> tuple[Count, Callable[[], None]]:
    sent = [0]
    client = Producer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": "produce", "linger.ms": 5,
         "batch.size": 100_000, "queue.buffering.max.messages": 100, "log_level": 0}
    )  # fmt: skip

    def acknowledged(error: object, _: object) -> None:
        sent[0] += len(VALUE) if error is None else 0

    def act() -> None:
        try:
            client.produce("produced", VALUE, partition=0, on_delivery=acknowledged)
            client.poll(0)
        except BufferError:
            client.poll(0.05)

    return lambda: sent[0], act


def consumer(cluster: Cluster) -> tuple[Count, Callable[[], None]]:
    read = [0]
    client = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": "consume", "group.id": "g",
         "queued.max.messages.kbytes": 200, "fetch.max.bytes": 100_000,
         "message.max.bytes": 100_000, "log_level": 0}
    )  # fmt: skip
    client.assign([TopicPartition("read", 0, 0)])

    def act() -> None:
        for message in client.consume(100, 0.1):
            assert message.error() is None, message.error()
            read[0] += len(message.value() or b"")

    return lambda: read[0], act


def connector(cluster: Cluster) -> tuple[Count, Callable[[], None]]:
    """Connections of one address that were answered."""
    made = [0]
    request = struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS

    def act() -> None:
        try:
            with socket.create_connection(address_of(cluster), 10, (ADDRESS, 0)) as stream:
                stream.sendall(request)
                made[0] += bool(stream.recv(4))
        except OSError:
            pass  # it was beyond the rate

    return lambda: made[0], act


def creator(cluster: Cluster) -> tuple[Count, Callable[[], None]]:
    """Topics of one partition each; one that is refused is asked for again when the answer says."""
    made, stream = [0], socket.create_connection(address_of(cluster), 10)

    def act() -> None:
        topic = CreatableTopic(name=f"made-{made[0]}", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        stream.sendall(frame(request, 7, client_id="create"))
        answer = decode_prefix(CreateTopicsResponse, 7, receive(stream), 5)[0]
        made[0] += not answer.topics[0].error_code
        time.sleep(answer.throttle_time_ms / 1000)

    return lambda: made[0], act


def asker(cluster: Cluster, *topics: str) -> tuple[Count, Callable[[], None]]:
    """Asks for the metadata of `topics`, of all if none. Processor time of the node, in percent of one
    thread times seconds."""
    pid = cluster.pid(1)
    stream = socket.create_connection(address_of(cluster), 30)
    asked = [MetadataRequestTopic(name=topic) for topic in topics] or None
    request = frame(MetadataRequest(topics=asked), 8, client_id="ask")

    def act() -> None:
        stream.sendall(request)
        receive(stream)

    def percent_seconds() -> float:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 100 * (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    return percent_seconds, act


def rates(running: Sequence[tuple[Count, Callable[[], None]]], seconds: float) -> list[float]:
    """What each achieves per second, all at the same time, after `SAVED_S`."""
    threads = [Running(act) for _, act in running]
    for thread in threads:
        thread.__enter__()
    time.sleep(SAVED_S)
    began, before = time.monotonic(), [count() for count, _ in running]
    time.sleep(seconds)
    after, took = [count() for count, _ in running], time.monotonic() - began
    for thread in threads:
        thread.__exit__()
    return [(end - start) / took for start, end in zip(before, after, strict=True)]


def fill(cluster: Cluster, seconds: float) -> None:
    """More than a consumer may read."""
    client = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "fill", "linger.ms": 5})
    for _ in range(int((seconds + SAVED_S) * 2 * BYTES / len(VALUE))):
        client.produce("read", VALUE, partition=0)
        client.poll(0)
    client.flush(60)


def measure(seconds: float) -> list[Measured]:
    with Cluster(nodes=1) as cluster, connect(cluster.bootstrap) as client:
        for name, partitions in (
            ("produced", 1),
            ("read", 1),
            *((f"m{n}", 1000) for n in range(4)),
        ):
            client.create_topic(name, partitions, 1)
        fill(cluster, seconds)
        set_quota(client, of_client("produce"), "producer_byte_rate", BYTES)
        set_quota(client, of_client("consume"), "consumer_byte_rate", BYTES)
        set_quota(client, of_client("create"), "controller_mutation_rate", MUTATIONS)
        set_quota(client, of_client("ask"), "request_percentage", TIME_PERCENT)
        set_quota(client, (("ip", ADDRESS),), "connection_creation_rate", CONNECTIONS)
        four = [make(cluster) for make in (producer, consumer, creator, connector)]
        produced, read, created, connected = rates(four, seconds)
        idle, _ = rates([(asker(cluster)[0], lambda: time.sleep(0.1))] * 2, seconds)
        (large,) = rates([asker(cluster)], seconds)
        (small,) = rates([asker(cluster, "read")], seconds)
    return [
        Measured("producer_byte_rate", "bytes/s that were acknowledged", BYTES, produced),
        Measured("consumer_byte_rate", "bytes/s that were read", BYTES, read),
        Measured("controller_mutation_rate", "partitions/s created", MUTATIONS, created),
        Measured("connection_creation_rate", "connections/s served", CONNECTIONS, connected),
        Measured("request_percentage, large", "% of a thread, idle subtracted", TIME_PERCENT, large - idle),
        Measured("request_percentage, small", "% of a thread, idle subtracted", TIME_PERCENT, small - idle),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    head = f"{'quota':26} {'limit':>12} {'measured':>14} {'ratio':>8}"
    found = [each.line() for each in measure(options.seconds)]
    text = "\n".join([f"over {options.seconds:g} s each", head, *found])
    print(text)
    (ROOT / "bench" / "results" / "quotas.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
