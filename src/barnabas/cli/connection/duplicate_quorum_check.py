"""A check before a quorum is started: the cluster may have one already.

Asks each bootstrap server that answers for the metadata log under this cluster's id. A server that knows
a leader, or an epoch in which one was elected, belongs to a quorum, even while its majority is down; a
controller that waits to be added knows neither. A server that does not answer now is missed: the check
prevents mistakes, not malice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from barnabas.client.network.channels import Channels
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.host.structured_log import StructuredLog
from barnabas.raft.core.messages import FetchRequest, FetchResponse
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.transport import Transport
from barnabas.raft.wire.wire_mapping import request_to_wire, response_from_wire
from barnabas.security.client_security import ClientSecurity
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Message

T = TypeVar("T")
OPEN = ClientSecurity()
TIMEOUT_MS = 1_000.0
"""The time for one server."""
OBSERVER = ReplicaKey(-1)


class OtherQuorum(NamedTuple):
    """A quorum of the cluster in question."""

    leader_id: int
    """-1 if the quorum has no leader at present."""
    epoch: int
    said_by: Endpoint

    def __str__(self) -> str:
        leads = f"led by node {self.leader_id}" if self.leader_id >= 0 else "without a leader now"
        return f"{leads}, in epoch {self.epoch} (says {self.said_by})"


def find_quorum(cluster_id: str, servers: Sequence[Endpoint]) -> OtherQuorum | None:
    """The quorum to which one of `servers` belongs under `cluster_id`; None if none does or none
    answers. Blocks."""

    def look(channels: Channels, on_done: Callable[[OtherQuorum | None], None]) -> None:
        look_around(channels, cluster_id, servers, on_done)

    return ask_and_wait(look)


def ask_and_wait(
    ask: Callable[[Channels, Callable[[T], None]], None], security: ClientSecurity = OPEN
) -> T:
    """The result of `ask`, which gets channels and what to call with it once. Blocks."""
    loop = new_loop()
    ports = HostPorts(loop, StructuredLog(level="error"))
    channels = Channels(ports, "barnabas-format", security=security)
    found: list[T] = []

    def on_done(answer: T) -> None:
        found.append(answer)
        loop.stop()

    loop.call_soon(ask, channels, on_done)
    try:
        loop.run_forever()
    finally:
        channels.close()
        ports.network.abort_all()
        ports.stop(wait=False)
        loop.close()
    return found[0]


def look_around(
    transport: Transport,
    cluster_id: str,
    servers: Sequence[Endpoint],
    on_done: Callable[[OtherQuorum | None], None],
) -> None:
    """Ask one server after the other; `on_done` is called once."""
    if not servers:
        on_done(None)
        return
    server, *others = servers
    asked = FetchRequest(0, OBSERVER, 0, 0, max_wait_ms=0, max_bytes=0)

    def on_answer(answer: object) -> None:
        quorum = _quorum_in(asked, answer, server)
        if quorum is not None:
            on_done(quorum)
        else:
            look_around(transport, cluster_id, others, on_done)

    request = request_to_wire(asked, cluster_id, -1)
    transport.send(server, request, on_answer, timeout_ms=TIMEOUT_MS)


def _quorum_in(asked: FetchRequest, answer: object, server: Endpoint) -> OtherQuorum | None:
    if not isinstance(answer, Message):
        return None
    response = response_from_wire(asked, answer, 0)
    assert isinstance(response, FetchResponse)
    if response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return None
    if response.leader_id < 0 and response.epoch <= 0:
        return None
    return OtherQuorum(response.leader_id, response.epoch, server)
