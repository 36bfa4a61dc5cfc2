"""What every client's test asserts about what it wrote and read."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable

from barnabas.testing.cluster import Cluster
from bench.wire import leader_of, leaders

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def fresh(prefix: str) -> str:
    """A topic or group name that was not used before."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def payload(index: int) -> bytes:
    """A value that says its number and compresses."""
    return b"%08d " % index + b"barnabas " * 20


def number(value: bytes) -> int:
    return int(value[:8])


def assert_read_once_in_order(
    acknowledged: dict[int, list[int]], read: Iterable[tuple[int, int, int]]
) -> None:
    """`acknowledged` has the numbers per partition in the order of sending; `read` has (partition,
    offset, number). Everything acknowledged was read once, and in that order; a record whose
    acknowledgement was lost may stand between."""
    by_partition: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for partition, offset, value in read:
        by_partition[partition].append((offset, value))
    for partition, numbers in acknowledged.items():
        found = [value for _, value in sorted(by_partition[partition])]
        assert len(found) == len(set(found)), f"duplicates in partition {partition}"
        wanted = set(numbers)
        assert [value for value in found if value in wanted] == numbers, f"partition {partition}"


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.02)


def wait_until_known(cluster: Cluster, topic: str) -> None:
    """Every broker has heard of the topic and its leaders: a client may ask any of them."""
    for server in cluster.bootstrap.split(","):
        leaders(server, topic)


class KillLeader:
    """Kills the leader of partition 0 once `ready` says so; restarts it at the end."""

    def __init__(self, cluster: Cluster, topic: str, ready: Callable[[], bool]) -> None:
        self.cluster = cluster
        self.topic = topic
        self.ready = ready
        self.killed: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> KillLeader:
        self._thread.start()
        return self

    def _run(self) -> None:
        wait_for(self.ready, "the producer to be under way")
        self.killed = leader_of(self.cluster.bootstrap, self.topic, 0)
        self.cluster.kill(self.killed)

    def __exit__(self, *_: object) -> None:
        self._thread.join(30)
        assert self.killed is not None
        self.cluster.restart(self.killed)
        wait_for(self._answers, "the killed node to serve again")

    def _answers(self) -> bool:
        assert self.killed is not None
        server = self.cluster.node(self.killed)["listeners"]["PLAINTEXT"]
        try:
            return self.killed in leaders(server, self.topic)[1]
        except OSError:
            return False
