"""Clusters whose derived files are damaged between two runs: no record is lost, and every node starts.

Derived files follow from batches: indexes, producers' snapshots, leader epochs and checkpoints of offsets.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.process.launch import Up, has_ended, wait_until

TOPIC, BATCHES, VALUE = "t", 6, b"x" * 400_000
DERIVED = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint")
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "random": lambda data, rng: rng.randbytes(len(data)),
    "zeros": lambda data, rng: bytes(len(data)),
    "empty": lambda data, rng: b"",
    "other length": lambda data, rng: data[: len(data) // 2] + rng.randbytes(13),
}


def write(up: Up, first: int) -> None:
    """Committed and aborted transactions by turns, over several segments."""
    producer = Producer(
        {"bootstrap.servers": up.state["bootstrap"], "transactional.id": "x", "log_level": 0}
    )
    producer.init_transactions(60)
    for number in range(first, first + BATCHES):
        producer.begin_transaction()
        producer.produce(TOPIC, VALUE, key=str(number), partition=0)
        if number % 3 == 2:
            producer.flush(30)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def keys_of(up: Up, wanted: int) -> list[int]:
    consumer: Any = Consumer(
        {"bootstrap.servers": up.state["bootstrap"], "group.id": "none", "log_level": 0}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []

    def is_read() -> bool:
        found.extend(int(m.key()) for m in consumer.consume(100, 0.5) if not m.error())
        return len(found) >= wanted

    try:
        wait_until(is_read, f"{len(found)} of {wanted} records are read")
    finally:
        consumer.close()
    return found


def end(up: Up, *, cleanly: bool) -> None:
    if cleanly:
        up.stop()
        return
    up.process.send_signal(signal.SIGSTOP)
    for process in up.pids:
        assert process
        os.kill(process, signal.SIGKILL)
        assert has_ended(process, 10)
    up.process.terminate()
    up.stop(signal.SIGCONT)


def damage(folder: Path, rng: random.Random) -> list[Path]:
    """Each derived file of each log of one node, in a way of its own."""
    files = [file for name in DERIVED for file in sorted(folder.glob(f"data/*-[0-9]*/{name}"))]
    files = [file for file in files if not file.parent.name.startswith("__cluster_metadata")]
    files += [file for name in CHECKPOINTS if (file := folder / "data" / name).exists()]
    for file in files:
        how = rng.choice(sorted(DAMAGES))
        file.write_bytes(DAMAGES[how](file.read_bytes(), rng))
    return files


def check(directory: Path, nodes: int, damaged: int, seed: int, *, cleanly: bool) -> None:
    """Write, end the cluster, damage the files of `damaged` nodes, start again, read, and write more."""
    rng = random.Random(seed)
    up = Up(directory, "--nodes", str(nodes))
    try:
        up.wait_for_line("bootstrap: ")
        admin = AdminClient({"bootstrap.servers": up.state["bootstrap"], "log_level": 0})
        topic = NewTopic(TOPIC, 1, nodes, config={"segment.bytes": "1048576"})
        admin.create_topics([topic])[TOPIC].result(30)
        write(up, 0)
        end(up, cleanly=cleanly)
        for folder in sorted(directory.glob("node-*"))[:damaged]:
            assert len(damage(folder, rng)) > 8
        up = Up(directory)
        up.wait_for_line("bootstrap: ")
        wanted = [number for number in range(2 * BATCHES) if number % 3 != 2]
        assert keys_of(up, len(wanted) // 2) == wanted[: len(wanted) // 2]
        write(up, BATCHES)
        assert keys_of(up, len(wanted)) == wanted
        assert all(up.pids)
        assert not list(directory.glob("node-*/data/*-stray"))
    finally:
        up.end()
