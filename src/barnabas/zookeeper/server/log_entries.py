"""The entries of the log: what servers propose, with what the leader fixes before it appends them.

Pure. A proposal is of one connection of one server; `number` counts those of the connection, so that one that
is sent twice (to a new leader, or over a new link) is done once. Of an entry, zxid and time are the leader's:
replay is deterministic. What changes neither znodes nor the set of sessions (ATTACH, BARRIER) takes no zxid.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barnabas.types import Buffer
from barnabas.zookeeper.server.jute import JuteError, JuteReader, JuteWriter
from barnabas.zookeeper.znode_acls import Identity


class Kind(IntEnum):
    OPEN = 1
    """A new session; `body` is its password, `argument` its time-out in milliseconds."""
    ATTACH = 2
    """The session comes to this connection; `body` is the password that the client has shown."""
    END = 3
    """The session is closed by its client, or, of no connection, has expired."""
    CHANGE = 4
    """A request: `argument` is its `Op`, `body` its record."""
    BARRIER = 5
    """Nothing: it is answered where everything before it has been applied."""


TAKES_ZXID = frozenset((Kind.OPEN, Kind.END, Kind.CHANGE))


class ProposalOrigin(NamedTuple):
    """A connection: of which run of a server, and its number there. The leader itself has none."""

    run: int
    connection: int


LEADER = ProposalOrigin(0, 0)


@dataclass(frozen=True, slots=True)
class Proposal:
    kind: Kind
    session: int
    origin: ProposalOrigin = LEADER
    number: int = 0
    argument: int = 0
    body: bytes = b""
    identities: tuple[Identity, ...] = ()

    def encode(self) -> bytes:
        writer = JuteWriter().number(self.kind).long(self.session)
        writer.long(self.origin.run).long(self.origin.connection).long(self.number)
        writer.number(self.argument)
        writer.vector(self.identities, lambda one: writer.text(one[0]).text(one[1]))
        return writer.raw(self.body).bytes()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A proposal in the log."""

    zxid: int
    ms: int
    proposal: Proposal


def encode_entry(zxid: int, wall_ms: int, proposal: bytes) -> bytes:
    return JuteWriter().long(zxid).long(wall_ms).raw(proposal).bytes()


def decode_entry(data: Buffer) -> LogEntry:
    """Raises `JuteError`."""
    reader = JuteReader(data)
    return LogEntry(reader.long(), reader.long(), read_proposal(reader))


def read_proposal(reader: JuteReader) -> Proposal:
    """Raises `JuteError`."""
    try:
        kind = Kind(reader.number())
    except ValueError as error:
        raise JuteError(str(error)) from error
    session = reader.long()
    origin, number = ProposalOrigin(reader.long(), reader.long()), reader.long()
    argument = reader.number()
    identities = reader.vector(lambda: (reader.text(), reader.text()))
    return Proposal(kind, session, origin, number, argument, reader.rest(), identities)
