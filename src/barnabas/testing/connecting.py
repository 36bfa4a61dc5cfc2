"""Clients of a cluster, for what is moved and checked in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.host.client import Connected
    from barnabas.testing.node_faults import NodeFaults


class ConnectableCluster(Protocol):
    """A cluster, as moves and checks see it."""

    faults: NodeFaults | None

    @property
    def bootstrap(self) -> str: ...
    @property
    def client_properties(self) -> Mapping[str, str]: ...
    def pause(self, node_id: int) -> None: ...
    def resume(self, node_id: int) -> None: ...
    def wait_for(self, condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any: ...


@contextmanager
def connected(cluster: ConnectableCluster) -> Iterator[Connected]:
    """A blocking client; its modules are loaded with the first one."""
    from barnabas.host.client import connect

    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        yield client
