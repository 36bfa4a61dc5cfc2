"""A pytest plugin: kazoo's own tests run against our ZooKeeper servers, where they would start Apache's.

It replaces ``kazoo.testing.common``, which starts servers in Java and needs libraries of its own, and
for the one function of ``objgraph`` that a test calls.
"""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from barnabas.cli.local.zookeeper_servers import OWN, ZooKeeperServer, ZooKeeperServers


class Server:
    def __init__(self, servers: ZooKeeperServers, server: ZooKeeperServer) -> None:
        self._servers = servers
        self._server = server

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def running(self) -> bool:
        return self._server.pid is not None

    def run(self) -> None:
        self._servers.start_server(self._server)

    def stop(self) -> None:
        self._server.stop()

    def destroy(self) -> None:
        self._server.kill()


class Cluster:
    """As `kazoo.testing.common.ZookeeperCluster`, with the methods that the tests call."""

    def __init__(self, *, size: int, **_: object) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="kazoo-suite-"))
        self._servers = ZooKeeperServers(self._directory, size, kind=OWN)
        self._each = [Server(self._servers, server) for server in self._servers.servers]

    def __getitem__(self, place: int) -> Server:
        return self._each[place]

    def __iter__(self) -> Iterator[Server]:
        return iter(self._each)

    def start(self) -> None:
        self._servers.start()

    def terminate(self) -> None:
        self._servers.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def get_logs(self) -> list[str]:
        return [server.last_lines() for server in self._servers.servers]


def count(type_name: str) -> int:
    """How many objects of the type the garbage collector knows."""
    return sum(type(each).__name__ == type_name for each in gc.get_objects())


_objgraph = ModuleType("objgraph")
_objgraph.count = count  # type: ignore[attr-defined]
sys.modules["objgraph"] = _objgraph
_common = ModuleType("kazoo.testing.common")
_common.ZookeeperCluster = Cluster  # type: ignore[attr-defined]
sys.modules["kazoo.testing.common"] = _common
