"""The state that the log's entries make: the znodes and the sessions. All servers that apply the same
entries are the same.

Pure. A session has one owner, the connection that opened it or to which it moved last: only the owner's
proposals are done, each once, in the order of their numbers. Moving is an entry too, so what an earlier
connection has proposed is done before the move or never. A session's end removes its ephemeral znodes in the
same transaction.

A snapshot is a header, the sessions, and the znodes, each after its parent.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.types import Buffer
from barnabas.zookeeper.errors import (
    BadArguments,
    MarshallingError,
    SessionExpired,
    SessionMoved,
)
from barnabas.zookeeper.operations import (
    OPEN_ACL,
    READ_ACL,
    CheckVersion,
    Create,
    Delete,
    Multi,
    SetAcl,
    SetData,
    ZnodeAcl,
)
from barnabas.zookeeper.server.jute import JuteError, JuteReader, JuteWriter
from barnabas.zookeeper.server.log_entries import LEADER, Kind, LogEntry, Proposal, ProposalOrigin
from barnabas.zookeeper.server.requests import Refused, decode, write_acl
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.znode_acls import SERVED_SCHEMES
from barnabas.zookeeper.znode_tree import Znode, ZnodeTree

SNAPSHOT_VERSION = 1
NODES_PER_CHUNK = 200
_FIRST_ZNODES = (
    Create("/zookeeper"),
    Create("/zookeeper/quota"),
    Create("/zookeeper/config", acl=READ_ACL),
)
"""They count for no sequential number. The last one has nothing: the servers are those of each one's file."""
_CHANGES = (Create, SetData, Delete, CheckVersion, Multi, SetAcl)


class ReplayedEntry:
    """The result of an entry that was done before, or is no session's: no connection waits for it."""


REPLAYED = ReplayedEntry()


@dataclass(slots=True)
class ReplicatedSession:
    password: bytes
    timeout_ms: int
    owner: ProposalOrigin
    number: int = 0
    """The number of its owner's last proposal."""


class AppliedEntry(NamedTuple):
    """The effects of an entry. `result` is the answer, an error among them."""

    result: Any
    events: tuple[WatchEvent, ...] = ()
    acls: tuple[tuple[ZnodeAcl, ...], ...] = ()
    """The ACL of the znode of each event."""


class ReplicatedState:
    """Znodes and sessions of an ensemble, as of the last entry that was applied."""

    def __init__(self) -> None:
        self.tree = ZnodeTree(SERVED_SCHEMES)
        self.sessions: dict[int, ReplicatedSession] = {}
        for create in _FIRST_ZNODES:
            self.tree.apply(create, 0, 0, 0)
        for _, node in self.tree.nodes():
            node.creates = 0

    @property
    def zxid(self) -> int:
        return self.tree.zxid

    def apply(self, entry: LogEntry) -> AppliedEntry:
        """Do one entry. It never fails: what cannot be done has an error for its result."""
        proposal = entry.proposal
        if entry.zxid:
            self.tree.zxid = entry.zxid
        if proposal.kind is Kind.OPEN:
            return self._open(proposal)
        session = self.sessions.get(proposal.session)
        if session is None:
            return AppliedEntry(SessionExpired())
        if proposal.kind is Kind.ATTACH:
            return self._attach(session, proposal)
        if proposal.origin != LEADER:
            if session.owner != proposal.origin:
                return AppliedEntry(SessionMoved())
            if proposal.number <= session.number:
                return AppliedEntry(REPLAYED)
            session.number = proposal.number
        if proposal.kind is Kind.END:
            del self.sessions[proposal.session]
            return AppliedEntry(*self.tree.end_session(proposal.session, entry.zxid))
        if proposal.kind is Kind.BARRIER:
            return AppliedEntry(None)
        return self._change(entry)

    def _open(self, proposal: Proposal) -> AppliedEntry:
        known = self.sessions.get(proposal.session)
        if known is not None:
            return AppliedEntry(REPLAYED if known.owner == proposal.origin else SessionExpired())
        self.sessions[proposal.session] = ReplicatedSession(
            proposal.body, proposal.argument, proposal.origin, proposal.number
        )
        return AppliedEntry(None)

    def _attach(self, session: ReplicatedSession, proposal: Proposal) -> AppliedEntry:
        if not hmac.compare_digest(session.password, proposal.body):
            return AppliedEntry(SessionExpired())
        if session.owner == proposal.origin:
            return AppliedEntry(REPLAYED)
        session.owner, session.number = proposal.origin, proposal.number
        return AppliedEntry(None)

    def _change(self, entry: LogEntry) -> AppliedEntry:
        proposal = entry.proposal
        try:
            request = decode(proposal.argument, JuteReader(proposal.body))
        except JuteError as error:  # it is committed: on every server alike
            return AppliedEntry(MarshallingError("", str(error)))
        if isinstance(request, Refused):
            return AppliedEntry(request.error)
        if not isinstance(request, _CHANGES):
            return AppliedEntry(BadArguments("", f"request {proposal.argument} changes nothing"))
        return AppliedEntry(
            *self.tree.apply(request, proposal.session, entry.zxid, entry.ms, proposal.identities)
        )

    # -- snapshots -------------------------------------------------------------------------------

    def snapshot(self) -> Iterator[Sequence[Buffer]]:
        """The state of this moment, in chunks."""
        header = (
            JuteWriter().number(SNAPSHOT_VERSION).long(self.zxid).number(len(self.sessions)).bytes()
        )
        sessions = [_session_bytes(number, one) for number, one in self.sessions.items()]
        return _chunks(header, sessions, self.tree.copy())

    def restore(self, values: Iterable[Sequence[Buffer]]) -> None:
        """Become what `snapshot` gave; be what it was until that is read. Raises `JuteError`."""
        found = (value for chunk in values for value in chunk)
        header = JuteReader(next(found, b""))
        version, zxid, count = header.number(), header.long(), header.number()
        if version != SNAPSHOT_VERSION:
            raise JuteError(f"a snapshot of version {version}")
        sessions = dict(_read_session(next(found, b"")) for _ in range(count))
        nodes = [_read_node(value) for value in found]
        if not nodes or nodes[0][0] != "/":
            raise JuteError("a snapshot without a root")
        self.sessions = sessions
        self.tree.restore(zxid, nodes)


def _chunks(header: bytes, sessions: list[bytes], tree: ZnodeTree) -> Iterator[Sequence[Buffer]]:
    chunk: list[Buffer] = [header, *sessions]
    for path, node in tree.nodes():
        chunk.append(_node_bytes(path, node))
        if len(chunk) >= NODES_PER_CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _session_bytes(number: int, session: ReplicatedSession) -> bytes:
    writer = JuteWriter().long(number).buffer(session.password).number(session.timeout_ms)
    owner = session.owner
    return writer.long(owner.run).long(owner.connection).long(session.number).bytes()


def _read_session(data: Buffer) -> tuple[int, ReplicatedSession]:
    reader = JuteReader(data)
    number, password, timeout_ms = reader.long(), reader.buffer(), reader.number()
    owner = ProposalOrigin(reader.long(), reader.long())
    return number, ReplicatedSession(password, timeout_ms, owner, reader.long())


def _node_bytes(path: str, node: Znode) -> bytes:
    writer = JuteWriter().text(path).buffer(node.data)
    writer.long(node.czxid).long(node.mzxid).long(node.pzxid).long(node.ctime).long(node.mtime)
    writer.number(node.version).number(node.aversion).number(node.creates).long(node.owner)
    return write_acl(writer, node.acl).bytes()


def _read_node(data: Buffer) -> tuple[str, Znode]:
    reader = JuteReader(data)
    path, content = reader.text(), reader.buffer()
    node = Znode(content, OPEN_ACL, 0, 0, 0)
    node.czxid, node.mzxid, node.pzxid = reader.long(), reader.long(), reader.long()
    node.ctime, node.mtime = reader.long(), reader.long()
    node.version, node.aversion, node.creates = reader.number(), reader.number(), reader.number()
    node.owner = reader.long()
    acl = reader.vector(lambda: ZnodeAcl(reader.number(), reader.text(), reader.text()))
    node.acl = OPEN_ACL if acl == OPEN_ACL else acl
    return path, node
