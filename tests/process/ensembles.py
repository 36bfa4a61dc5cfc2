"""A ZooKeeper server for a test: Apache's where Java is, ours where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from barnabas.cli.local.zookeeper_servers import OWN, ZooKeeperMissing, ZooKeeperServers


class Ends(Protocol):
    def end(self) -> None: ...


Cluster = TypeVar("Cluster", bound=Ends)


@contextmanager
def ensemble(directory: Path) -> Iterator[ZooKeeperServers]:
    """Its data is in the folder ``ensemble`` of `directory`."""
    try:
        servers = ZooKeeperServers(directory / "ensemble")
    except ZooKeeperMissing:
        servers = ZooKeeperServers(directory / "ensemble", kind=OWN)
    with servers:
        yield servers


@contextmanager
def ended(cluster: Cluster) -> Iterator[Cluster]:
    """`cluster`, which is ended with the test."""
    try:
        yield cluster
    finally:
        cluster.end()
