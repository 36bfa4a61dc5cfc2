"""TLS on one stream, between the network and a reader of frames. Sans-IO.

:class:`TlsStream` is the ``ports.Receiver`` of the encrypted stream and the ``ports.Connection`` of the one
in clear text. Bytes go through the memory buffers of an ``ssl.SSLObject``; decrypted bytes land in the inner
receiver's own buffer. The inner receiver learns of the connection once the handshake is over.

Bounds: `Handshakes` counts those under way and gives each a deadline and a number of bytes; one that is
refused, late or malformed ends its connection with one log event. A renegotiation is refused by the context.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from barnabas import limits
from barnabas.ports import ClientPorts, Connection, Receiver, Wakeup
from barnabas.security import TlsHandshakeError
from barnabas.types import Buffer, Endpoint
from barnabas.wire.read_buffers import READ_BUFFERS

HANDSHAKE_READ_BYTES = 8 * 1024
"""The bytes that one read takes before the handshake is over; later reads use `READ_BUFFERS`."""
DECRYPTED_BYTES = 32 * 1024
"""The bytes that the library gets at a time: its buffer keeps the size that it once had."""
JOINED_BYTES = 16 * 1024
"""Small parts leave together, in records of up to this size: the largest that there are."""
SLICE_BYTES = 128 * 1024
"""The size of a slice in which encrypted bytes leave: the library's buffer stays small, the peer begins
sooner."""
MakeTls = Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject]


class Handshakes:
    """Counts handshakes under way and logs those that fail."""

    def __init__(self, ports: ClientPorts, listener: str) -> None:
        self._ports = ports
        self._listener = listener
        self._under_way: dict[TlsStream, Wakeup] = {}
        self.failed = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, stream: TlsStream) -> bool:
        """False: too many are under way."""
        if len(self._under_way) >= limits.HANDSHAKES_MAX:
            self._note_failure(stream, "too many handshakes are under way")
            return False
        at_ms = self._ports.clock.now_ms() + limits.AUTHENTICATION_MS_MAX
        self._under_way[stream] = self._ports.wakeups.call_at(at_ms, stream.on_late)
        return True

    def end(self, stream: TlsStream, error: str = "") -> None:
        """A handshake is over; `error` says why it failed."""
        wakeup = self._under_way.pop(stream, None)
        if wakeup is not None:
            wakeup.cancel()
            if error:
                self._note_failure(stream, error)

    def _note_failure(self, stream: TlsStream, reason: str) -> None:
        self.failed += 1
        self._ports.log(
            "warning", "connection.tls_failed",
            listener=self._listener, peer=str(stream.peer), reason=reason,
        )  # fmt: skip


class TlsStream:
    """One stream; `inner` gets what is decrypted. `is_ready` from the handshake's end on."""

    __slots__ = (
        "_connection", "_defer", "_handshakes", "_in", "_inner", "_make", "_out", "_over", "_paused",
        "_received", "_tls", "_told", "_view", "_why", "is_ready",
    )  # fmt: skip

    def __init__(
        self,
        inner: Receiver,
        make: MakeTls,
        handshakes: Handshakes,
        defer: Callable[[Callable[[], None]], None],
    ) -> None:
        """`defer` runs a callback after the present one."""
        self._inner = inner
        self._make = make
        self._handshakes = handshakes
        self._defer = defer
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._connection: Connection | None = None
        self._view: memoryview | None = None
        self._received = 0
        self._paused = self._over = self._told = False
        self._why: OSError | None = None
        self.is_ready = False

    def __repr__(self) -> str:
        return f"TlsStream({self.peer}, {'ready' if self.is_ready else 'handshake'})"

    @property
    def doing(self) -> str:
        return getattr(self._inner, "doing", "") if self.is_ready else "TLS handshake"

    # -- ports.Receiver: of the network --------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        if not self._handshakes.begin(self):
            connection.abort()
            return
        try:
            self._tls = self._make(self._in, self._out)
        except (OSError, ValueError) as error:
            self._fail(TlsHandshakeError(str(error)))
            return
        if not self._tls.server_side:  # a server waits for the client's first message
            self._shake()

    def get_buffer(self) -> memoryview:
        if self._view is None:
            self._view = (
                READ_BUFFERS.take()
                if self.is_ready
                else memoryview(bytearray(HANDSHAKE_READ_BYTES))
            )
        return self._view

    def buffer_updated(self, size: int) -> None:
        view, self._view = self._view, None
        assert view is not None
        for start in range(0, size, DECRYPTED_BYTES):
            self._take(view[start : min(start + DECRYPTED_BYTES, size)])
        if len(view) != HANDSHAKE_READ_BYTES:
            READ_BUFFERS.give(view)

    def _take(self, encrypted: memoryview) -> None:
        if self._over:
            return
        self._in.write(encrypted)
        size = len(encrypted)
        if not self.is_ready:
            self._received += size
            if self._received > limits.HANDSHAKE_BYTES_MAX:
                self._fail(
                    TlsHandshakeError("the peer sent too much before the handshake was over")
                )
                return
            self._shake()
        if self.is_ready:
            self._deliver()

    def on_closed(self, error: OSError | None) -> None:
        was_ready, self._over = self.is_ready, True
        self._connection = None
        if not was_ready and error is None and self._why is None:
            self._why = OSError("the peer ended the connection during the TLS handshake")
        self._handshakes.end(self, str(self._why or error or ""))
        if not self._told:
            self._told = True
            self._inner.on_closed(error or self._why)

    # -- the handshake ---------------------------------------------------------------------------------

    def on_late(self) -> None:
        """The handshake's time is up."""
        self._fail(TlsHandshakeError("the TLS handshake took too long"))

    def _shake(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (ssl.SSLError, ssl.CertificateError, ValueError) as error:
            self._fail(TlsHandshakeError(sentence_of(error)))
            return
        self._flush()
        self._handshakes.end(self)
        self.is_ready = True
        self._inner.on_connected(self)

    def _fail(self, error: OSError) -> None:
        """End the connection, with an alert where the library has one for the peer."""
        if self._over:
            return
        self._why = error
        self._handshakes.end(self, str(error))
        self._flush()
        self._over = True
        if self._connection is not None:
            self._connection.close()

    # -- ports.Connection: of the inner receiver ---------------------------------------------------------

    @property
    def peer(self) -> Endpoint:
        return self._connection.peer if self._connection is not None else Endpoint("", 0)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._connection is None else self._connection.unsent_bytes

    def peer_certificate(self) -> bytes | None:
        """In DER; None where the peer has shown none."""
        return None if self._tls is None else self._tls.getpeercert(binary_form=True)

    def session(self) -> tuple[str, str]:
        """(TLS version, cipher suite)."""
        cipher = None if self._tls is None else self._tls.cipher()
        return (
            ("", "")
            if self._tls is None or cipher is None
            else (self._tls.version() or "", cipher[0])
        )

    def send(self, parts: Sequence[Buffer]) -> None:
        if self._over or self._tls is None:
            return
        try:
            for part in parts if len(parts) == 1 else joined_parts(parts):
                view = memoryview(part).cast("B")
                while view:
                    pending_max = min(max(len(view), 2 * JOINED_BYTES), SLICE_BYTES)
                    view = view[self._tls.write(view[:SLICE_BYTES]) :]
                    if self._out.pending >= pending_max:
                        self._flush()
        except ssl.SSLError as error:
            self._fail(TlsHandshakeError(sentence_of(error)))
            return
        self._flush()

    def close(self) -> None:
        if self._connection is None or self._over:
            return
        if self._tls is not None and self.is_ready:
            try:
                self._tls.unwrap()  # writes close_notify; does not wait for the peer's
            except (ssl.SSLError, ValueError):
                pass
        self._flush()
        self._over = True
        self._connection.close()

    def abort(self) -> None:
        self._over = True
        if self._connection is not None:
            self._connection.abort()

    def pause_reading(self) -> None:
        self._paused = True
        if self._connection is not None:
            self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._connection is not None:
            self._connection.resume_reading()
            self._defer(self._deliver)  # what was decrypted, or came, before the pause

    # -- bytes -------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._out.pending and self._connection is not None:
            self._connection.send((self._out.read(),))

    def _deliver(self) -> None:
        """Decrypt what has come into the inner receiver's buffers."""
        tls, inner = self._tls, self._inner
        if tls is None:
            return
        read = cast("Callable[[int, memoryview], int]", tls.read)
        while not self._paused and not self._over and (self._in.pending or tls.pending()):
            view = inner.get_buffer()
            try:
                size = read(len(view), view)
            except ssl.SSLWantReadError:
                break
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                size = 0
            except ssl.SSLError as error:
                self._fail(TlsHandshakeError(sentence_of(error)))
                return
            del view
            if not size:
                self.close()
                return
            inner.buffer_updated(size)
        self._flush()  # the library's own answers


def joined_parts(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """`parts` with small neighbours joined."""
    small: list[Buffer] = []
    size = 0
    for part in parts:
        if size + len(part) > JOINED_BYTES and small:
            yield b"".join(small)
            small, size = [], 0
        if len(part) >= JOINED_BYTES:
            yield part
        else:
            small.append(part)
            size += len(part)
    if small:
        yield b"".join(small)


_PLAIN_TEXT = (
    "HTTP_REQUEST",
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "HTTPS_PROXY_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
)


def sentence_of(error: Exception) -> str:
    """Why a handshake failed, and which side is wrong."""
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"this side does not trust the peer's certificate: {error.verify_message}"
    if reason in _PLAIN_TEXT:
        return "the peer does not speak TLS, or this is no TLS listener"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the peer shows no certificate, which ssl.client.auth=required asks for"
    if "ALERT" in reason:
        alert = reason.lower().partition("alert_")[2].replace("_", " ")
        return f"the peer refuses: {alert}"
    if reason in ("NO_SHARED_CIPHER", "UNSUPPORTED_PROTOCOL"):
        return f"the two sides share no {'cipher suite' if 'CIPHER' in reason else 'TLS version'}"
    return reason.lower().replace("_", " ") or str(error)
