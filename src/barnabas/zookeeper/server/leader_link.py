"""Between the servers of an ensemble: what a follower's clients propose, on its way to the leader.

One connection per follower, in frames of four bytes of length and one byte of kind. Nothing is answered: a
server learns from the log what became of its proposals. A link that ends is opened again, and everything that
was not applied is sent again, in order; an entry that comes twice is done once (`log_entries`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from barnabas.ports import Connection, Ports
from barnabas.types import Endpoint
from barnabas.zookeeper.server.jute import JuteError, JuteReader, JuteWriter
from barnabas.zookeeper.server.log_entries import read_proposal

HELLO = b"BNZK\0\0\0\1"
"""The first bytes of a link, with its version."""
PROPOSAL, TOUCH = 1, 2
RETRY_MS = 50.0
BUFFER_BYTES = 64 * 1024
FRAME_OVERHEAD_BYTES = 64 * 1024
"""How much more than a client's frame a link's may have: identities, numbers."""


class LeaderLink:
    """The follower's end. `on_linked` is called each time it is open."""

    def __init__(self, ports: Ports, on_linked: Callable[[], None]) -> None:
        self._ports = ports
        self._on_linked = on_linked
        self._target: Endpoint | None = None
        self._link: _Link | None = None

    def aim(self, target: Endpoint | None) -> None:
        """Who leads now; None where this server does, or none is known."""
        self._target = target
        link, self._link = self._link, None
        if link is not None:
            link.abort()
        if target is not None:
            self._connect()

    def _connect(self) -> None:
        if self._target is not None and self._link is None:
            self._link = _Link(self)
            self._ports.network.connect(self._target, self._link)

    @property
    def is_open(self) -> bool:
        return self._link is not None and self._link.connection is not None

    def propose(self, proposal: bytes) -> None:
        self._send(PROPOSAL, proposal)

    def touch(self, sessions: Iterable[int]) -> None:
        writer = JuteWriter()
        self._send(TOUCH, writer.vector(sessions, writer.long).bytes())

    def _send(self, kind: int, body: bytes) -> None:
        if self._link is not None and self._link.connection is not None:
            head = (len(body) + 1).to_bytes(4, "big") + bytes([kind])
            self._link.connection.send([head, body])

    def on_open(self, link: _Link) -> None:
        if link is self._link and link.connection is not None:
            link.connection.send([HELLO])
            self._on_linked()
        else:
            link.abort()

    def on_end(self, link: _Link) -> None:
        if link is self._link:
            self._link = None
            self._ports.wakeups.call_at(self._ports.clock.now_ms() + RETRY_MS, self._connect)


class _Link:
    """One attempt; the other end sends nothing."""

    def __init__(self, link: LeaderLink) -> None:
        self._leader_link = link
        self._space = memoryview(bytearray(256))
        self.connection: Connection | None = None
        self._given_up = False

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection
        if self._given_up:
            connection.abort()
        else:
            self._leader_link.on_open(self)

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, size: int) -> None:
        self.abort()

    def on_closed(self, error: OSError | None) -> None:
        self.connection = None
        self._leader_link.on_end(self)

    def abort(self) -> None:
        self._given_up = True
        if self.connection is not None:
            self.connection.abort()


class Leading(Protocol):
    """The leader's side of a link."""

    ports: Ports

    @property
    def frame_bytes_max(self) -> int: ...
    def take_proposal(self, proposal: bytes) -> bool:
        """False where this server does not lead."""

    def take_touches(self, sessions: Iterable[int]) -> None: ...
    def forget_follower(self, follower: FollowerLink) -> None: ...


class FollowerLink:
    """The leader's end. A server that does not lead closes it: the follower tries again."""

    def __init__(self, server: Leading) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._space = memoryview(bytearray(BUFFER_BYTES))
        self._data = bytearray()
        self.is_known = False
        """Whether the other end has said hello."""
        self.begun_ms = server.ports.clock.now_ms()

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection

    def get_buffer(self) -> memoryview:
        return self._space

    def on_closed(self, error: OSError | None) -> None:
        self._connection = None
        self._server.forget_follower(self)

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def buffer_updated(self, size: int) -> None:
        self._data += self._space[:size]
        try:
            self._take_frames()
        except JuteError as error:
            peer = None if self._connection is None else self._connection.peer
            self._server.ports.log(
                "warning", "zookeeper.link_refused", peer=peer, reason=str(error)
            )
            self.abort()

    def _take_frames(self) -> None:
        at = 0
        if not self.is_known:
            if not HELLO.startswith(self._data[: len(HELLO)]):
                raise JuteError("the other end is no server of this kind and version")
            if len(self._data) < len(HELLO):
                return
            self.is_known, at = True, len(HELLO)
        while len(self._data) - at >= 4 and self._connection is not None:
            end = at + 4 + int.from_bytes(self._data[at : at + 4], "big")
            if end - at > self._server.frame_bytes_max + FRAME_OVERHEAD_BYTES:
                raise JuteError(f"a frame of {end - at} bytes")
            if len(self._data) < end:
                break
            frame = bytes(self._data[at + 4 : end])
            at = end
            if not self._take(frame):
                self.abort()
                return
        del self._data[:at]

    def _take(self, frame: bytes) -> bool:
        reader = JuteReader(frame[1:])
        if frame[:1] == bytes([PROPOSAL]):
            read_proposal(reader)
            return self._server.take_proposal(frame[1:])
        if frame[:1] != bytes([TOUCH]):
            raise JuteError(f"a frame of kind {frame[:1]!r}")
        self._server.take_touches(reader.vector(reader.long))
        return True
