"""The APIs of a node's listeners, by the role of the listener; ``docs/protocol.md`` is made from them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import handlers as broker_handlers
from barnabas.controller import handlers as controller_handlers
from barnabas.raft import handlers as raft_handlers
from barnabas.security.sasl_server import (
    AUTHENTICATE_API,
    HANDSHAKE_API,
    refuse_authenticate,
    refuse_handshake,
)
from barnabas.wire.dispatch import ApiTable

if TYPE_CHECKING:
    from barnabas.broker.roles import HasConfig
    from barnabas.controller.active.quorum_controller import QuorumController
    from barnabas.raft.raft_node import RaftNode


def serve_as_broker(table: ApiTable, broker: HasConfig) -> None:
    """Fill the table of a listener of clients and brokers."""
    broker_handlers.add_to(table, broker)
    add_sasl(table)


def serve_as_controller(table: ApiTable, controller: QuorumController, quorum: RaftNode) -> None:
    """Fill the table of a controller listener."""
    controller_handlers.add_to(table, controller)
    raft_handlers.add_to(table, quorum)
    add_sasl(table)


def add_sasl(table: ApiTable) -> None:
    """Serve SaslHandshake and SaslAuthenticate with handlers that refuse them, for connections that need no
    authentication, or no more, as Kafka does."""
    table.add_handler(HANDSHAKE_API, refuse_handshake, [])
    table.add_handler(AUTHENTICATE_API, refuse_authenticate, None)
