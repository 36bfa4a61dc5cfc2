"""Checks, before a voter's directory is formatted, whether this voter ran before and lost its directory.

A voter that starts with an empty directory has forgotten its votes and its log. It may vote twice in one
epoch, or let a majority form that lacks committed records. The metadata log tells whether it ran: every
controller registers its id once it follows a leader (KIP-919), and the other voters know the registrations.

The check misses a voter that voted and was lost before it registered, a metadata.version below 15, which has
no registrations, and voters that do not answer now. It prevents mistakes; Apache Kafka has no such check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.cli.connection.duplicate_quorum_check import TIMEOUT_MS, ask_and_wait
from barnabas.client.network.channels import Channels
from barnabas.config.node import NodeConfig
from barnabas.raft.transport import Transport
from barnabas.security.listener_security import to_controllers
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse

CONTROLLERS = 2
"""Endpoint type of DescribeCluster."""


class EarlierRegistration(NamedTuple):
    """An earlier registration of the voter that is to be formatted."""

    at: Endpoint
    """The endpoint that it registered."""
    said_by: Endpoint
    """The voter that reported it."""


def find_former_life(
    config: NodeConfig, cluster_id: str, others: Sequence[Endpoint]
) -> EarlierRegistration | None:
    """Ask the `others` for an earlier registration of this node as a controller of `cluster_id`. None if none
    of them has one, or none answers. Blocks. Raises :class:`ConfigError`."""
    if not others:
        return None

    def look(channels: Channels, on_done: Callable[[EarlierRegistration | None], None]) -> None:
        look_around(channels, int(config.node_id), cluster_id, others, on_done)

    return ask_and_wait(look, to_controllers(config))


def look_around(
    transport: Transport,
    node: int,
    cluster_id: str,
    others: Sequence[Endpoint],
    on_done: Callable[[EarlierRegistration | None], None],
) -> None:
    """Ask one voter after the other. `on_done` is called once, with the first registration found or None."""
    if not others:
        on_done(None)
        return
    voter, *rest = others

    def on_answer(answer: object) -> None:
        at = _registered_at(answer, node, cluster_id)
        if at is not None:
            on_done(EarlierRegistration(at, voter))
        else:
            look_around(transport, node, cluster_id, rest, on_done)

    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    transport.send(voter, request, on_answer, timeout_ms=TIMEOUT_MS)


def _registered_at(answer: object, node: int, cluster_id: str) -> Endpoint | None:
    if not isinstance(answer, DescribeClusterResponse) or answer.cluster_id != cluster_id:
        return None
    if answer.error_code != ErrorCode.NONE:
        return None
    return next((Endpoint(c.host, c.port) for c in answer.brokers if c.broker_id == node), None)
