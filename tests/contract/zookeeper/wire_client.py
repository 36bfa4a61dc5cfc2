"""A client that sends any bytes: what a server answers, in a form that two servers can be compared by."""

from __future__ import annotations

import socket
import struct

from barnabas.zookeeper.server.jute import JuteReader, JuteWriter
from barnabas.zookeeper.server.requests import Op

TIMEOUT_S = 10.0
EVENT_XID = -1


class WireClient:
    """One session at `port` of this machine."""

    def __init__(self, port: int, timeout_ms: int = 20_000) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._socket.settimeout(TIMEOUT_S)
        request = JuteWriter().number(0).long(0).number(timeout_ms).long(0)
        self._send(request.buffer(bytes(16)).bool(False).bytes())
        reader = JuteReader(self._receive())
        reader.number()
        self.timeout_ms, self.session = reader.number(), reader.long()
        self._xid = 0
        self.events: list[tuple[int, int, str]] = []
        _, self.base, _ = self.ask(Op.EXISTS, JuteWriter().text("/").bool(False).bytes())

    def close(self) -> None:
        """End the session: one that expires later would take a zxid among those of others."""
        self.ask(Op.CLOSE_SESSION, b"")
        self._socket.close()

    def _send(self, frame: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def _receive(self) -> bytes:
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the server has closed the connection")
            data += part
        return data

    def ask(self, op: int, body: bytes, xid: int | None = None) -> tuple[int, int, bytes]:
        """(error, zxid, body) of the answer; events that came before it are kept."""
        self._xid += 1
        xid = self._xid if xid is None else xid
        self._send(struct.pack(">ii", xid, op) + body)
        while True:
            reader = JuteReader(self._receive())
            answered, zxid, error = reader.number(), reader.long(), reader.number()
            if answered == xid:
                return error, zxid, reader.rest()
            assert answered == EVENT_XID
            self.events.append((reader.number(), reader.number(), reader.text()))

    def relative_stat(self, reader: JuteReader) -> tuple[int, ...]:
        """A `Stat` without dates; zxids count from the session's beginning."""
        czxid, mzxid, _, _ = (reader.long() for _ in range(4))
        version, cversion, aversion = (reader.number() for _ in range(3))
        owner, length, children = reader.long(), reader.number(), reader.number()
        pzxid = reader.long()
        zxids = [max(zxid - self.base, 0) for zxid in (czxid, mzxid, pzxid)]
        return (*zxids, version, cversion, aversion, owner == self.session, length, children)
