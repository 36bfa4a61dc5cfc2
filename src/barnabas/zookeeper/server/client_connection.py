"""One client's connection: frames in, answers and watch events out, in the order of zxid.

Requests are answered in their order. What changes something is proposed at once, ahead of the answers to
earlier changes; a read waits until the changes before it have been answered, and what follows a read waits
for it. Before there is a session a client may send one frame, within a bounded time, or one four-letter word.
A frame that is none closes the connection with a line of the log that says why.

Source: ``NIOServerCnxn``, ``ZooKeeperServer.processConnectRequest``, ``processPacket``.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, Protocol

from barnabas.ports import Connection, Ports
from barnabas.types import Buffer
from barnabas.zookeeper.errors import AuthFailed, SessionExpired, SessionMoved
from barnabas.zookeeper.operations import Create, Delete, Multi, Request, SetAcl, SetData, SyncPath
from barnabas.zookeeper.server.jute import JuteError, JuteReader, JuteWriter
from barnabas.zookeeper.server.log_entries import Kind
from barnabas.zookeeper.server.requests import (
    CloseSession,
    Op,
    SetWatches,
    decode,
    encode_result,
    error_code,
    multi_ops,
)
from barnabas.zookeeper.server.words import WORDS, ServerStats
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.znode_acls import Identity, digest_identity

BUFFER_BYTES = 64 * 1024
REQUESTS_WAITING_MAX = 1_000
UNSENT_BYTES_MAX = 4 * 1024 * 1024
"""While more waits to be sent to a client, nothing more is read from it."""
UNSENT_BYTES_LIMIT = 64 * 1024 * 1024
"""A client that reads nothing is closed."""
EVENT_XID, PING_XID, AUTH_XID = -1, -2, -4
_STATE_CONNECTED = 3
_CHANGES = (Create, Delete, SetData, SetAcl, Multi)
_CHANGE_OPS = (Op.CREATE, Op.CREATE2, Op.MULTI)
"""A refused one takes a zxid, too."""
NO_PASSWORD = bytes(16)


class Host(Protocol):
    """The server of a connection."""

    ports: Ports
    stats: ServerStats
    paused: dict[JuteConnection, None]

    @property
    def zxid(self) -> int: ...
    @property
    def frame_bytes_max(self) -> int: ...
    @property
    def is_congested(self) -> bool: ...
    def granted_ms(self, timeout_ms: int) -> int: ...
    def word(self, word: str) -> str: ...
    def propose_connect(
        self, connection: JuteConnection, session: int, password: bytes, timeout_ms: int
    ) -> None: ...
    def propose(self, connection: JuteConnection, kind: Kind, op: int, body: bytes) -> None: ...
    def read(self, connection: JuteConnection, request: Request[Any]) -> Any: ...
    def resume_watches(
        self, connection: JuteConnection, request: SetWatches
    ) -> list[WatchEvent]: ...
    def forget(self, connection: JuteConnection) -> None: ...


class Received(NamedTuple):
    """A request that is not answered yet."""

    xid: int
    op: int
    request: Request[Any]
    body: bytes
    at_ms: float


class JuteConnection:
    """One client. `number` is unique in this run of the server."""

    def __init__(self, host: Host, number: int) -> None:
        self.number = number
        self.session = 0
        """0 before the client has asked for one."""
        self.password = NO_PASSWORD
        self.timeout_ms = 0
        """The time-out of the session; 0 before it is established."""
        self.proposed_count = 0
        self.identities: tuple[Identity, ...] = ()
        self.heard_ms = host.ports.clock.now_ms()
        self.received = self.sent = 0
        self._host = host
        self._connection: Connection | None = None
        self._space = memoryview(bytearray(BUFFER_BYTES))
        self._data = bytearray()
        self._last_zxid = 0
        self._says_read_only = False
        self._waiting: deque[Received] = deque()
        self._proposed: deque[Received | None] = deque()
        """None is the session itself."""
        self._is_paused = self._is_working = self._is_ending = False

    def __repr__(self) -> str:
        return f"JuteConnection({self.number} {self.session:#x})"

    # -- bytes -----------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return "" if self._connection is None else str(self._connection.peer)

    @property
    def outstanding(self) -> int:
        return len(self._waiting) + len(self._proposed)

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        self.identities = (("ip", connection.peer.host),)

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, size: int) -> None:
        self.heard_ms = self._host.ports.clock.now_ms()
        self._data += self._space[:size]
        at = 0
        try:
            while (end := self._frame_end(at)) and self._connection and not self._is_ending:
                frame = bytes(self._data[at + 4 : end])
                at = end
                self._on_frame(frame)
        except JuteError as error:
            self._refuse(str(error))
        del self._data[:at]
        self.work()

    def _frame_end(self, at: int) -> int:
        """The end of the next whole frame; 0 where there is none yet. Raises `JuteError`."""
        if len(self._data) - at < 4:
            return 0
        head = bytes(self._data[at : at + 4])
        if not self.session and head.decode("latin-1") in WORDS:
            self._answer_word(head.decode())
            return 0
        size = int.from_bytes(head, "big", signed=True)
        if not 0 <= size <= self._host.frame_bytes_max:
            raise JuteError(
                f"a frame of {size} bytes; jute.maxbuffer is {self._host.frame_bytes_max}"
            )
        return at + 4 + size if len(self._data) - at >= 4 + size else 0

    def _answer_word(self, word: str) -> None:
        self._send([self._host.word(word).encode()])
        self.hang_up()

    def on_closed(self, error: OSError | None) -> None:
        self._connection = None
        self._waiting.clear()
        self._proposed.clear()
        self._host.forget(self)

    def _refuse(self, reason: str) -> None:
        peer = self.peer
        self._host.ports.log("warning", "zookeeper.client_refused", peer=peer, reason=reason)
        self.abort()

    def hang_up(self) -> None:
        """Close when everything is sent."""
        self._is_ending = True
        if self._connection is not None:
            self._connection.close()

    def abort(self) -> None:
        self._is_ending = True
        if self._connection is not None:
            self._connection.abort()

    def _send(self, parts: list[Buffer]) -> None:
        if self._connection is not None:
            self.sent += 1
            self._connection.send(parts)
            if self._connection.unsent_bytes > UNSENT_BYTES_LIMIT:
                self._refuse("it does not read what it is sent")

    def _reply(self, xid: int, error: int, body: bytes = b"") -> None:
        header = (
            JuteWriter()
            .number(16 + len(body))
            .number(xid)
            .long(self._host.zxid)
            .number(error)
            .bytes()
        )
        self._send([header, body] if body else [header])

    # -- frames ----------------------------------------------------------------------------------

    def _on_frame(self, frame: bytes) -> None:
        self.received += 1
        reader = JuteReader(frame)
        if not self.session:
            self._on_connect(reader)
            return
        xid, op = reader.number(), reader.number()
        if op == Op.PING:
            self._reply(PING_XID, 0)
        elif op == Op.AUTH:
            self._on_auth(reader)
        else:
            body = bytes(frame[8:])
            now_ms = self._host.ports.clock.now_ms()
            self._waiting.append(Received(xid, op, decode(op, reader), body, now_ms))

    def _on_connect(self, reader: JuteReader) -> None:
        reader.number()
        self._last_zxid = reader.long()
        timeout_ms, session, password = reader.number(), reader.long(), reader.buffer()
        self._says_read_only = reader.left > 0
        self._proposed.append(None)
        self.proposed_count = 1
        self._host.propose_connect(self, session, password, self._host.granted_ms(timeout_ms))

    def _on_auth(self, reader: JuteReader) -> None:
        reader.number()
        scheme, secret = reader.text(), reader.buffer()
        if scheme == "digest":
            self.identities = tuple(dict.fromkeys((*self.identities, digest_identity(secret))))
        elif scheme != "ip":
            self._reply(AUTH_XID, AuthFailed.code)
            self._host.ports.log(
                "warning", "zookeeper.auth_refused", peer=self.peer,
                reason=f"the scheme {scheme!r} is not served; digest and ip are",
            )  # fmt: skip
            self.hang_up()
            return
        self._reply(AUTH_XID, 0)

    # -- work ------------------------------------------------------------------------------------

    def work(self) -> None:
        """Propose and answer what can be by now."""
        if self._is_working:
            return
        self._is_working = True
        try:
            while self._waiting and not self._is_ending:
                one = self._waiting[0]
                kind = _kind_of(one.op, one.request)
                if kind is None and self._proposed:
                    break
                self._waiting.popleft()
                if kind is None:
                    self._answer(one, self._read(one.request))
                else:
                    self._proposed.append(one)
                    self.proposed_count += 1
                    self._host.propose(self, kind, one.op, one.body)
        finally:
            self._is_working = False
        self.regulate()

    def _read(self, request: Request[Any]) -> Any:
        if isinstance(request, SetWatches):
            for event in self._host.resume_watches(self, request):
                self.tell(event)
            return None
        return self._host.read(self, request)

    def regulate(self) -> None:
        """Stop reading while too much waits; read again when half of it is gone."""
        connection = self._connection
        if connection is None:
            return
        limit = 2 if self._is_paused else 1
        full = (
            self.outstanding * limit > REQUESTS_WAITING_MAX
            or connection.unsent_bytes * limit > UNSENT_BYTES_MAX
            or (self._host.is_congested and self.outstanding > 0)
        )
        if full != self._is_paused:
            self._is_paused = full
            if full:
                self._host.paused[self] = None
                connection.pause_reading()
            else:
                self._host.paused.pop(self, None)
                connection.resume_reading()

    # -- what was committed ----------------------------------------------------------------------

    def on_result(self, result: Any) -> None:
        """The first of what was proposed has been done, with this result."""
        if not self._proposed or self._is_ending:
            return
        one = self._proposed.popleft()
        if one is None:
            self._on_session(result)
        elif isinstance(result, SessionMoved):
            self.hang_up()
        else:
            self._answer(one, result)
            if isinstance(one.request, CloseSession) or isinstance(result, SessionExpired):
                self.hang_up()
        self.work()

    def _on_session(self, result: Any) -> None:
        """The session was opened, has come here, or is over."""
        if result is not None:
            self._admit(0, 0, NO_PASSWORD)
            self.hang_up()
        elif self._last_zxid > self._host.zxid:
            self._refuse(
                f"the client has seen zxid {self._last_zxid:#x}; this server's last is {self._host.zxid:#x}"
            )
        else:
            self._admit(self.timeout_ms, self.session, self.password)

    def _admit(self, timeout_ms: int, session: int, password: bytes) -> None:
        writer = JuteWriter().number(0).number(timeout_ms).long(session).buffer(password)
        if self._says_read_only:
            writer.bool(False)
        body = writer.bytes()
        self._send([len(body).to_bytes(4, "big"), body])

    def _answer(self, one: Received, result: Any) -> None:
        ops = multi_ops(one.body) if isinstance(one.request, Multi) else ()
        self._reply(one.xid, error_code(result), encode_result(one.op, one.request, result, ops))
        self._host.stats.on_answered(self._host.ports.clock.now_ms() - one.at_ms)

    def tell(self, event: WatchEvent) -> None:
        """A watch has fired."""
        writer = JuteWriter().number(EVENT_XID).long(-1).number(0)
        body = writer.number(event.kind.value).number(_STATE_CONNECTED).text(event.path).bytes()
        self._send([len(body).to_bytes(4, "big"), body])


def _kind_of(op: int, request: Request[Any]) -> Kind | None:
    """The kind of proposal of `request`; None where this server answers it."""
    if isinstance(request, _CHANGES) or op in _CHANGE_OPS:
        return Kind.CHANGE
    if isinstance(request, SyncPath):
        return Kind.BARRIER
    return Kind.END if isinstance(request, CloseSession) else None
