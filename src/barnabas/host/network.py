"""Sockets as ``ports.Network``: listening, accepting, connecting, resolving names.

A port in use or a foreign address raises an ``OSError`` whose text is a sentence for the user. A
refused connection ends with `on_closed(ConnectionRefusedError)` in the turn in which the kernel
reports it. Names are resolved off the thread (`getaddrinfo` blocks); numeric addresses at once.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from barnabas import limits
from barnabas.host.connection import HostConnection, Traffic
from barnabas.host.loop import Loop, Timer
from barnabas.host.system.memory import return_free_memory
from barnabas.ports import Background, ConnectionGate, ConnectionRefusal, Receiver
from barnabas.types import Endpoint

ACCEPTS_PER_TURN = 64
PORT_MAX = 65535
V4_MAPPED = "::ffff:"
"""The beginning of an address of IPv4 that is given as one of IPv6."""
ACCEPT_PAUSE_S = 0.2
"""How long accepting pauses when the process has no descriptor left."""

RETURN_AFTER_S = 1.0
"""The time between the end of a burst of unread responses and the return of free memory, which the
next burst may need."""
GATE_PAUSE_S = 1.0
"""The longest pause of accepting before the gate is asked again: its limits may have changed."""
PUT_OFF_MAX = 256
NONE_LEFT = (errno.EMFILE, errno.ENFILE)
AS_THE_SYSTEM_SAYS = -1

_Address = tuple[int, Any]
"""Family, and address in the form of the socket module."""
Log = Callable[..., None]


class SocketOptions(NamedTuple):
    """The options of sockets in a node's configuration."""

    capacity: int = limits.CONNECTIONS_MAX
    """Connections that the process can have."""
    backlog: int = limits.LISTEN_BACKLOG
    send_bytes: int = AS_THE_SYSTEM_SAYS
    receive_bytes: int = AS_THE_SYSTEM_SAYS
    connect_timeout_ms: float = limits.CONNECT_TIMEOUT_MS


class HostNetwork:
    """``ports.Network`` over the loop. Connections that their listener's gate refuses are closed."""

    def __init__(
        self,
        loop: Loop,
        background: Background,
        log: Log,
        options: SocketOptions = SocketOptions(),  # noqa: B008 - it does not change
    ) -> None:
        self.loop = loop
        self.traffic = Traffic(self._return_memory)
        self.log = log
        self.options = options
        self.put_off: dict[socket.socket, Timer] = {}
        """Refused connections that are closed later."""
        self._background = background
        self._connections: dict[HostConnection, None] = {}
        self._listeners: dict[HostListener, None] = {}
        self._attempts: dict[_Attempt, None] = {}
        self.spare = SpareDescriptor()

    # -- ports.Network -----------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        return self.traffic.unsent

    @property
    def capacity(self) -> int:
        return self.options.capacity

    def listen(
        self,
        endpoint: Endpoint,
        accept: Callable[[], Receiver],
        gate: ConnectionGate | None = None,
    ) -> HostListener:
        self.spare.keep()
        family, address = _listen_address(endpoint)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and not endpoint.host:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if self.options.receive_bytes > 0:  # accepted sockets inherit it
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.options.receive_bytes)
            sock.bind(address)
            sock.listen(self.options.backlog)
        except OSError as error:
            sock.close()
            raise OSError(error.errno, _listen_problem(endpoint, error)) from error
        listener = HostListener(self, sock, endpoint, accept, gate or ProcessGate(self))
        self._listeners[listener] = None
        return listener

    def machine_name(self) -> str:
        return machine_name()

    def addresses_of(self, host: str) -> list[str]:
        return addresses_of(host)

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        if not 0 < endpoint.port <= PORT_MAX:  # a peer may have sent it
            error = OSError(errno.EINVAL, f"{endpoint.port} is no port")
            self.loop.call_soon(receiver.on_closed, error)
            return
        numeric = _numeric(endpoint)
        if numeric is not None:
            _Attempt(self, endpoint, receiver, [numeric]).begin()
            return
        self._background.run(
            f"resolve {endpoint.host}",
            lambda: _resolve(endpoint),
            lambda found: self._on_resolved(endpoint, receiver, found),
        )

    # -- for host ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of streams, in both directions."""
        return len(self._connections)

    def describe(self) -> dict[str, int]:
        return {"connections": len(self), **self.traffic.describe()}

    def abort_all(self) -> None:
        """Close every listener and connection at once, also those being opened: the node ends."""
        for listener in list(self._listeners):
            listener.close()
        for attempt in list(self._attempts):
            attempt.abort()
        for connection in list(self._connections):
            connection.abort()
        for sock, timer in self.put_off.items():
            timer.cancel()
            sock.close()
        self.put_off.clear()
        self.spare.close()

    def _return_memory(self) -> None:
        """Return the allocator's free memory a moment later, on another thread: the unread
        responses are gone."""
        self.loop.call_later(
            RETURN_AFTER_S,
            lambda: self._background.run("return-memory", return_free_memory, lambda done: None),
        )

    def close_later(self, sock: socket.socket, wait_ms: float) -> None:
        """Close a refused connection later: its client would connect again at once."""
        if wait_ms <= 0 or len(self.put_off) >= PUT_OFF_MAX:
            sock.close()
        else:
            self.put_off[sock] = self.loop.call_later(wait_ms / 1000, self._close_now, sock)

    def _close_now(self, sock: socket.socket) -> None:
        del self.put_off[sock]
        sock.close()

    def adopt(
        self,
        sock: socket.socket,
        peer: Endpoint,
        receiver: Receiver,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Start a stream on a connected socket."""
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:  # the peer has closed it already, and no option can be set
            sock.close()
            if on_end is not None:
                on_end()
            self.loop.call_soon(receiver.on_closed, error)
            return

        def forget(connection: HostConnection) -> None:
            self._connections.pop(connection, None)
            if on_end is not None:
                on_end()

        connection = HostConnection(self, sock, peer, receiver, forget)
        self._connections[connection] = None
        connection.start()

    def note_attempt(self, attempt: _Attempt) -> None:
        self._attempts[attempt] = None

    def forget_attempt(self, attempt: _Attempt) -> None:
        self._attempts.pop(attempt, None)

    def forget_listener(self, listener: HostListener) -> None:
        self._listeners.pop(listener, None)

    def on_receiver_fault(self, connection: HostConnection, error: Exception) -> None:
        self.loop.fault(f"a receiver failed on {connection.peer}", error)

    def _on_resolved(
        self, endpoint: Endpoint, receiver: Receiver, found: list[_Address] | BaseException
    ) -> None:
        if isinstance(found, OSError):
            receiver.on_closed(found)
        elif isinstance(found, BaseException):  # the text is no name: UnicodeError
            receiver.on_closed(OSError(errno.EINVAL, f"{endpoint.host!r}: {found}"))
        else:
            _Attempt(self, endpoint, receiver, found).begin()


class SpareDescriptor:
    """A descriptor that is kept for refusing connections when the process has no other. To a client
    whose connection is not accepted the server seems to hang."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def keep(self) -> None:
        """Take a descriptor, unless there is one already or none is left."""
        if self._descriptor is None:
            with suppress(OSError):
                self._descriptor = os.open(os.devnull, os.O_RDONLY)

    def refuse(self, listening: socket.socket) -> Any:
        """Close the next connection that waits at `listening`, and return its peer's address.
        Raises ``OSError`` if none waits or there is no spare descriptor."""
        if self._descriptor is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        os.close(self._descriptor)
        self._descriptor = None
        try:
            sock, address = listening.accept()
            sock.close()
        finally:
            self.keep()
        return address

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class ProcessGate:
    """The ``ports.ConnectionGate`` of a listener without one: it admits what the process can
    have."""

    def __init__(self, network: HostNetwork) -> None:
        self._network = network

    def wait_ms(self) -> float:
        return 0.0

    def on_accepted(self, host: str) -> ConnectionRefusal | None:
        full = len(self._network) >= self._network.capacity
        return ConnectionRefusal("max.connections", 0.0) if full else None

    def on_ended(self, host: str) -> None:
        pass


class HostListener:
    """``ports.Listener`` over a listening socket, which it owns."""

    def __init__(
        self,
        network: HostNetwork,
        sock: socket.socket,
        endpoint: Endpoint,
        accept: Callable[[], Receiver],
        gate: ConnectionGate,
    ) -> None:
        self._network = network
        self._socket = sock
        self._accept = accept
        self._gate = gate
        self._endpoint = Endpoint(endpoint.host, sock.getsockname()[1])
        self._open = True
        network.loop.add_reader(sock.fileno(), self._on_readable)

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    def __repr__(self) -> str:
        return f"HostListener({self._endpoint})"

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._network.loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._network.forget_listener(self)

    def _on_readable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._open:
                return
            if (wait_ms := self._gate.wait_ms()) > 0:
                self._pause(min(wait_ms / 1000, GATE_PAUSE_S))
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if not self._refuse(error):
                    return
            else:
                self._on_accepted(sock, _peer_at(address))

    def _on_accepted(self, sock: socket.socket, peer: Endpoint) -> None:
        network, gate = self._network, self._gate
        refusal = gate.on_accepted(peer.host)
        if refusal is not None:
            network.close_later(sock, refusal.wait_ms)
            at, reason = self._endpoint, refusal.reason
            network.log("warning", "connection.refused", listener=at, peer=peer, reason=reason)
            return
        sock.setblocking(False)
        if network.options.send_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, network.options.send_bytes)
        network.adopt(sock, peer, self._accept(), lambda: gate.on_ended(peer.host))

    def _refuse(self, error: OSError) -> bool:
        """Handle a failed accept. If no descriptor is left, the next connection is closed, so that
        its client tries another broker. Returns False if accepting pauses."""
        if error.errno in NONE_LEFT:
            try:
                peer = _peer_at(self._network.spare.refuse(self._socket))
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return False
            except OSError as second:
                error = second
            else:
                self._network.log(
                    "warning",
                    "connection.refused",
                    listener=self._endpoint,
                    peer=peer,
                    reason="no file descriptor is left",
                )
                return True
        self._rest(error)
        return False

    def _rest(self, error: OSError) -> None:
        """Pause accepting: no descriptor or memory is left until other connections end."""
        self._network.log("error", "listener.accept_failed", listener=self._endpoint, error=error)
        self._pause(ACCEPT_PAUSE_S)

    def _pause(self, seconds: float) -> None:
        self._network.loop.remove_reader(self._socket.fileno())
        self._network.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._network.spare.keep()
        if self._open:
            self._network.loop.add_reader(self._socket.fileno(), self._on_readable)


class _Attempt:
    """One `connect`: the addresses of a name, one after the other until one answers."""

    def __init__(
        self,
        network: HostNetwork,
        endpoint: Endpoint,
        receiver: Receiver,
        addresses: list[_Address],
    ) -> None:
        self._network = network
        self._loop = network.loop
        self._endpoint = endpoint
        self._receiver = receiver
        self._addresses = addresses
        self._socket: socket.socket | None = None
        self._timeout: Timer | None = None

    def begin(self) -> None:
        """Try the next address."""
        family, address = self._addresses.pop(0)
        try:
            sock = self._socket = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._fail(error)
            return
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code in (0, errno.EINPROGRESS):
            self._network.note_attempt(self)
            self._loop.add_writer(sock.fileno(), self._on_writable)
            self._timeout = self._loop.call_later(
                self._network.options.connect_timeout_ms / 1000, self._on_timeout
            )
        else:
            self._fail(OSError(code, os.strerror(code)))

    def abort(self) -> None:
        """Give the attempt up, once it has begun."""
        self._detach_socket().close()
        self._loop.call_soon(self._receiver.on_closed, None)

    def _on_writable(self) -> None:
        sock = self._detach_socket()
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        try:
            if not code and sock.getsockname() == sock.getpeername():
                code = (
                    errno.ECONNREFUSED
                )  # no process listens: the kernel joined the socket to itself
        except OSError as error:  # ENOTCONN: the peer has reset it meanwhile
            code = error.errno or errno.ENOTCONN
        if code:
            sock.close()
            self._fail(OSError(code, os.strerror(code)))
        else:
            self._network.adopt(sock, self._endpoint, self._receiver)

    def _on_timeout(self) -> None:
        self._detach_socket().close()
        self._fail(TimeoutError(errno.ETIMEDOUT, f"{self._endpoint} did not answer"))

    def _detach_socket(self) -> socket.socket:
        assert self._socket is not None
        sock, self._socket = self._socket, None
        self._network.forget_attempt(self)
        self._loop.remove_writer(sock.fileno())
        if self._timeout is not None:
            self._timeout.cancel()
        return sock

    def _fail(self, error: OSError) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._addresses:
            self.begin()
        else:
            self._loop.call_soon(self._receiver.on_closed, error)


def addresses_of(host: str) -> list[str]:
    """The addresses of a host, in the form of a peer's address. Raises ``OSError``. Blocks if the
    host is a name."""
    return list(dict.fromkeys(_peer_at(address).host for _, address in _resolve(Endpoint(host, 0))))


def machine_name() -> str:
    """The machine's full name if it knows it; ``localhost`` if its name cannot be looked up.
    Blocks."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name


def _numeric(endpoint: Endpoint) -> _Address | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, endpoint.host)
        except (OSError, ValueError):  # a name, or no valid text
            continue
        return family, (endpoint.host, endpoint.port)
    return None


def _resolve(endpoint: Endpoint) -> list[_Address]:
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))


def _peer_at(address: Any) -> Endpoint:
    """A peer's address. An IPv4 peer of an IPv6 socket (one that listens on every address) has its
    IPv4 address, as in Kafka: descriptions of group members and counts of connections use it."""
    host: str = address[0]
    if "." in host:
        host = host.removeprefix(V4_MAPPED)
    return Endpoint(host, address[1])


def _listen_address(endpoint: Endpoint) -> _Address:
    if not endpoint.host:
        if socket.has_dualstack_ipv6():
            return socket.AF_INET6, ("::", endpoint.port)
        return socket.AF_INET, ("0.0.0.0", endpoint.port)
    numeric = _numeric(endpoint)
    if numeric is not None:
        return numeric
    try:
        return _resolve(endpoint)[0]
    except OSError as error:
        raise OSError(error.errno, _listen_problem(endpoint, error)) from error


def _listen_problem(endpoint: Endpoint, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {endpoint.port} of {endpoint.host or 'this machine'} is already in use"
    return f"cannot listen on {endpoint}: {error.strerror or error}"
