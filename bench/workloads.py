"""The workloads: what a client does to a cluster, the same code for both systems."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.closed_loop import closed_loop
from bench.systems import System
from bench.wire import active_controller, leader_of
from tests.clients.access import Access
from tests.clients.connected import (
    KINDS,
    PARTITIONS,
    Client,
    act_at_once,
    dies_as,
    groups_of_one_coordinator,
)
from tests.clients.connected_python import (
    ConfluentAdmin,
    ConfluentMember,
    ConfluentOffsets,
    ConfluentProducer,
)

RECORD = b"x" * 1024
Figures = dict[str, float]


def admin(system: System) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": system.bootstrap,
            "log_level": 0,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
        }
    )


def create_topic(
    system: System,
    name: str,
    partitions: int = 6,
    timeout: float = 60,
    replicas: list[int] | None = None,
) -> None:
    """Create with replication factor 3, or one partition on `replicas`; retried until it exists."""
    deadline = time.monotonic() + timeout
    client = admin(system)
    while True:
        config = {"min.insync.replicas": "2"}
        topic = (
            NewTopic(name, 1, replica_assignment=[replicas], config=config)
            if replicas
            else NewTopic(name, partitions, 3, config=config)
        )
        future = client.create_topics([topic], request_timeout=10)[name]
        try:
            future.result(15)
            return
        except KafkaException as error:
            if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def producer(system: System, **extra: object) -> Producer:
    return Producer(
        {"bootstrap.servers": system.bootstrap, "acks": "all", "log_level": 0,
         "message.timeout.ms": 60000, "queue.buffering.max.kbytes": 1 << 20,
         "queue.buffering.max.messages": 2_000_000, **extra}
    )  # fmt: skip


def first_ack(system: System, topic: str) -> None:
    client = producer(
        system,
        **{
            "linger.ms": 0,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
        },
    )
    done: list[object] = []
    client.produce(topic, RECORD, partition=0, on_delivery=lambda error, _: done.append(error))
    while not done:
        client.poll(0.005)
    assert done == [None], done


def start(system: System, measure: bool = True) -> Figures:
    """Processes started → topic created → first acknowledged record; memory and idle CPU after it."""
    system.start()
    began = time.monotonic()
    system.launch()  # type: ignore[attr-defined]
    create_topic(system, "first")
    first_ack(system, "first")
    seconds = time.monotonic() - began
    if not measure:
        return {}
    time.sleep(5)
    resident = max(system.resident_bytes()) / 1e6
    before, at = system.cpu_seconds(), time.monotonic()
    time.sleep(15)
    idle = 100 * (system.cpu_seconds() - before) / (time.monotonic() - at)
    return {"start to first ack, s": seconds, "resident after start, MB": resident,
            "idle CPU of three nodes, % of a core": idle}  # fmt: skip


def produce_all(client: Producer, topic: str, records: int, partitions: int = 6) -> None:
    """Produce `records` records of 1 KB to the partitions in turn, and wait for all acknowledgements."""
    for index in range(records):
        while True:
            try:
                client.produce(topic, RECORD, partition=index % partitions)
                break
            except BufferError:
                client.poll(0.01)
        if index % 1000 == 0:
            client.poll(0)
    assert client.flush(120) == 0


def bulk_consumer(bootstrap: str) -> dict[str, str | int | bool]:
    """Settings of a consumer whose queue holds 1 GB: with a full queue it pauses for a second."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "log_level": 0,
        "enable.auto.commit": False,
        "fetch.max.bytes": 50 << 20,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 1 << 20,
        "max.partition.fetch.bytes": 4 << 20,
    }


def throughput(system: System, records: int = 300_000) -> Figures:
    """Produce, then consume `records` records of 1 KB over six partitions: rates, and CPU time of all nodes.

    The consumer's queue holds all records: with a full queue it pauses for a second, and the rate would be
    that of its pauses.
    """
    size_gb = records * len(RECORD) / 1e9
    topic = f"load-{time.monotonic_ns()}"
    create_topic(system, topic)
    client = producer(system, **{"linger.ms": 5, "batch.size": 1_000_000})
    first_ack(system, topic)
    began, cpu_s = time.monotonic(), system.cpu_seconds()
    produce_all(client, topic, records)
    produce_s, produce_cpu_s = time.monotonic() - began, system.cpu_seconds() - cpu_s
    consumer = Consumer(bulk_consumer(system.bootstrap))
    consumer.assign([TopicPartition(topic, p, 0) for p in range(6)])
    began, cpu_s, count = time.monotonic(), system.cpu_seconds(), 0
    while count < records:
        count += len(consumer.consume(10_000, timeout=1))
    consume_s, consume_cpu_s = time.monotonic() - began, system.cpu_seconds() - cpu_s
    consumer.close()
    return {"produce, MB/s": size_gb * 1e3 / produce_s, "consume, MB/s": size_gb * 1e3 / consume_s,
            "produce, CPU s of all nodes per GB": produce_cpu_s / size_gb,
            "consume, CPU s of all nodes per GB": consume_cpu_s / size_gb,
            "resident after load, MB": max(system.resident_bytes()) / 1e6}  # fmt: skip


def transactions(system: System, seconds: float = 5.0) -> Figures:
    """Transactions of ten records over three partitions, by one producer and by 16 producers at once: commits
    per second, and the 99th percentile from begin to the answer to commit. Each producer has one transaction
    at a time."""
    figures: Figures = {}
    for count in (1, 16):
        topic = f"transactions-{time.monotonic_ns()}"
        create_topic(system, topic)
        first_ack(system, topic)
        clients = [
            producer(
                system,
                **{"transactional.id": f"{topic}-{index}", "linger.ms": 0, "acks": "all"},
            )
            for index in range(count)
        ]
        for client in clients:
            _patiently(partial(client.init_transactions, 60))
        durations: list[float] = []
        began = time.monotonic()
        threads = [
            threading.Thread(target=_transact, args=(client, topic, began + seconds, durations))
            for client in clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        durations.sort()
        name = f"transactions of 10 records, {count} producer{'s' if count > 1 else ''}"
        figures[f"{name}, commits/s"] = len(durations) / took
        figures[f"{name}, p99 ms"] = 1000 * durations[int(0.99 * (len(durations) - 1))]
    return figures


def _transact(client: Producer, topic: str, until: float, durations: list[float]) -> None:
    while (begun := time.monotonic()) < until:
        client.begin_transaction()
        for index in range(10):
            client.produce(topic, RECORD, partition=index % 3)
        _patiently(lambda: client.commit_transaction(60))
        durations.append(time.monotonic() - begun)


def _patiently(action: Callable[[], None]) -> None:
    """Repeat `action` while it raises retriable errors."""
    while True:
        try:
            action()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def one_record_per_request(system: System) -> Figures:
    """64 connections, each with one request of one record in flight, for five seconds."""
    create_topic(system, "closed-loop")
    rate, latencies = closed_loop(system.bootstrap, "closed-loop", 6, connections=64, seconds=5)
    return {
        "closed loop, requests/s": rate,
        "closed loop p99, ms": latencies[int(len(latencies) * 0.99)],
    }


def end_to_end(system: System, rate: int = 2000, seconds: float = 5) -> Figures:
    """Milliseconds from produce() until the consumer has the record, at `rate` records/s with linger 0."""
    topic = f"e2e-{time.monotonic_ns()}"
    create_topic(system, topic)
    first_ack(system, topic)
    client = producer(system, **{"linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "e2e", "log_level": 0,
                         "enable.auto.commit": False, "fetch.wait.max.ms": 100})  # fmt: skip
    consumer.assign([TopicPartition(topic, p, 1 if p == 0 else 0) for p in range(6)])
    consumer.consume(1, timeout=1)
    total = int(rate * seconds)
    latencies: list[float] = []

    def consume() -> None:
        while len(latencies) < total:
            for message in consumer.consume(500, timeout=0.05):
                latencies.append((time.monotonic_ns() - int(message.value()[:20])) / 1e6)

    thread = threading.Thread(target=consume)
    thread.start()
    began = time.monotonic()
    for index in range(total):
        wait = began + index / rate - time.monotonic()
        if wait > 0:
            client.poll(0)
            time.sleep(max(0.0, began + index / rate - time.monotonic()))
        client.produce(topic, b"%020d" % time.monotonic_ns() + RECORD[:100], partition=index % 6)
    client.flush(30)
    thread.join(30)
    consumer.close()
    latencies.sort()
    return {"end to end p50, ms": latencies[len(latencies) // 2],
            "end to end p99, ms": latencies[int(len(latencies) * 0.99)]}  # fmt: skip


def longest_pause(system: System, topic: str, node: int) -> float:
    """Kill `node` while a producer writes to partition 0 every few ms. Returns the longest time between two
    acknowledgements, in seconds.

    Each setting of the client that affects a failover has its default.
    """
    client = producer(system, **{"linger.ms": 0})
    acknowledged: list[float] = []

    def note(error: object, _: object) -> None:
        if error is None:
            acknowledged.append(time.monotonic())

    def run(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(BufferError):
                client.produce(topic, RECORD, partition=0, on_delivery=note)
            client.poll(0.002)

    run(2.0)
    system.kill(node)
    at = time.monotonic()
    while not acknowledged or acknowledged[-1] < at + 1.0:
        run(0.2)
        if time.monotonic() > at + 60:
            break
    client.flush(30)
    system.restart(node)
    return max(later - earlier for earlier, later in pairwise(acknowledged))


def failover(system: System, index: int) -> Figures:
    """kill -9 of a partition's leader, every second time the active controller."""
    wait_whole(system, "first")
    controller = active_controller(system.bootstrap)
    others = [node for node in system.pids() if node != controller]
    replicas = [controller, *others] if index % 2 else [*others, controller]
    node, topic = replicas[0], f"failover-{index}"
    create_topic(system, topic, replicas=replicas)
    wait_whole(system, topic)
    if leader_of(system.bootstrap, topic, 0) != node:
        raise RuntimeError(f"{topic} is not led by its first replica, which was to be killed")
    pause = longest_pause(system, topic, node)
    wait_whole(system, topic)
    return {"leader killed: longest pause, worst, s": pause}


def controller_failover(system: System, index: int) -> Figures:
    """kill -9 of the active controller → the next topic is created."""
    wait_whole(system, "first")
    node = active_controller(system.bootstrap)
    system.kill(node)
    began = time.monotonic()
    create_topic(system, f"after-{index}", 1, timeout=180)
    seconds = time.monotonic() - began
    system.restart(node)
    return {"controller killed: next topic, worst, s": seconds}


def connected_before(system: System, index: int) -> Figures:
    """kill -9 of a leader, a coordinator or the active controller, by `index` in turn → how long clients that
    are connected already take for their next action.

    A producer's record is acknowledged in every partition; a group's member reads it and commits; an admin
    client creates a topic; another consumer asks for the group's offsets. A client that gives up is printed,
    and its figure is how long it tried: so the run completes on any system.
    """
    wait_whole(system, "first")
    topic, kind = f"connected-{index}", KINDS[index % len(KINDS)]
    (group,) = groups_of_one_coordinator(1)
    create_topic(system, topic, PARTITIONS)
    wait_whole(system, topic)
    access = Access(system.bootstrap)
    clients: list[Client] = [
        ConfluentProducer(access, topic),
        ConfluentMember(access, topic, group),
        ConfluentAdmin(access),
        ConfluentOffsets(access, topic, group),
    ]
    given_up: list[str] = []
    try:
        act_at_once(clients, 0)
        node = dies_as(access, kind, topic, group)
        system.kill(node)
        try:
            took = act_at_once(clients, 1, given_up)
        finally:
            system.restart(node)
    finally:
        for client in clients:
            client.close()
    for sentence in given_up:
        print(f"{system.name}, {kind} killed, {index}: gave up: {sentence}", flush=True)
    wait_whole(system, topic)
    return {
        f"{kind} killed: {name} that stays, worst, s": seconds
        for name, seconds in sorted(took.items())
    }


def wait_whole(system: System, topic: str, timeout: float = 90) -> None:
    """Wait until every replica of `topic` is in the ISR. Raises TimeoutError after `timeout` seconds."""
    client = admin(system)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        found = client.list_topics(topic, timeout=10).topics[topic].partitions.values()
        if found and all(len(p.isrs) == 3 and p.leader >= 0 for p in found):
            return
        time.sleep(0.1)
    raise TimeoutError(f"the ISR of {topic} did not become whole within {timeout} s")
