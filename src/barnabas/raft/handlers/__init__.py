"""The quorum's APIs, one module each, served on controller listeners. The role is `RaftNode`."""

from __future__ import annotations

from typing import cast

from barnabas.raft.handlers import (
    add_raft_voter,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from barnabas.raft.raft_node import RaftNode
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.request import HandlerModule

HANDLERS = cast(
    "tuple[HandlerModule, ...]",
    (
        fetch,
        vote,
        begin_quorum_epoch,
        end_quorum_epoch,
        describe_quorum,
        fetch_snapshot,
        add_raft_voter,
        remove_raft_voter,
        update_raft_voter,
    ),
)

FORWARDED = cast("tuple[HandlerModule, ...]", (describe_quorum, add_raft_voter, remove_raft_voter))
"""Served to clients through any broker as well, in an Envelope (KIP-590)."""


def add_to(table: ApiTable, replica: RaftNode) -> None:
    """Serve the quorum's APIs on a controller listener."""
    for module in HANDLERS:
        table.add(module, replica)
