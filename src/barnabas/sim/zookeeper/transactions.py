"""The transactions that the ensemble has committed, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.zookeeper.znode_tree import AppliedTransaction, ZnodeTree

if TYPE_CHECKING:
    from barnabas.sim.zookeeper.server import SessionConnection


class CommittedTransaction(NamedTuple):
    """One transaction, and the connection that waits for its result."""

    zxid: int
    request: Any
    """None where it is the session's end."""
    session: int
    wall_ms: int
    connection: SessionConnection | None
    xid: int


def apply(tree: ZnodeTree, entry: CommittedTransaction) -> AppliedTransaction:
    """One committed transaction on one tree."""
    if entry.request is None:
        return tree.end_session(entry.session, entry.zxid)
    return tree.apply(entry.request, entry.session, entry.zxid, entry.wall_ms)
