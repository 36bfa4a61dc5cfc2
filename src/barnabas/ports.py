"""A node's only access to the world: time, chance, disk, network and blocking work, as protocols.

``node`` and the packages below it use the world only through these protocols; they do not import
``asyncio``, ``socket``, ``threading``, ``time``, ``random`` or ``os``. ``host`` implements the protocols
on the real machine, ``sim`` on a simulated one. One contract test suite checks both.

The node makes all calls on its one thread, and all callbacks run on that thread. Only jobs of `Background`
run elsewhere.
Durations and instants are milliseconds; sizes and positions are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from barnabas.limits import NodeBounds
from barnabas.types import Buffer, Endpoint

T = TypeVar("T")


def no_work() -> None:
    """Nothing is to be done between the parts of a long piece of work."""


def call_all(callbacks: Iterable[Callable[[], object]]) -> None:
    """Call every callback, then raise the first exception, so that one failure skips no other callback."""
    fault: Exception | None = None
    for callback in callbacks:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - a callback may raise anything; raised below
            fault = fault or error
    if fault is not None:
        raise fault


def raise_soon(wakeups: Wakeups, fault: Exception) -> None:
    """Raise `fault` in a wakeup of its own: it comes from another component's callback, so the caller's work
    continues."""

    def raising() -> None:
        raise fault

    wakeups.call_soon(raising)


class Clock(Protocol):
    def now_ms(self) -> float:
        """Milliseconds of a monotonic clock: it never goes back, and its zero is arbitrary."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump forwards or back."""


class Rng(Protocol):
    """The part of ``random.Random`` that a node may use. Each concern has its own generator (`Ports.rng`)."""

    def random(self) -> float: ...
    def randrange(self, start: int, stop: int | None = None, /) -> int: ...
    def uniform(self, low: float, high: float, /) -> float: ...
    def getrandbits(self, bits: int, /) -> int: ...
    def randbytes(self, size: int, /) -> bytes: ...
    def shuffle(self, items: list[Any], /) -> None: ...
    def choice(self, items: Sequence[T], /) -> T: ...


class File(Protocol):
    """An open file. Errors are ``OSError``. Closed files raise ``ValueError``."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Length in bytes, from memory: makes no system call."""

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write `parts` in order at the end of the file. Returns the position of their first byte. After an
        ``OSError`` the bytes from the old end on are undefined, and the caller must truncate."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file. May block on the device."""

    def try_read_at(self, position: int, size: int) -> Buffer | None:
        """Read as `read_at` does; returns None where the bytes are not in memory, so that reading would
        block."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Make content and length durable (fdatasync). Blocks; safe to run through `Background`
        while the owner appends."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute, ``/``-separated strings. Errors are ``OSError``."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. `create` makes a missing file empty."""

    def read_file(self, path: str) -> bytes: ...

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace `path` as a whole: temporary file, sync, rename, sync of the directory.
        `durable=False` skips the syncs: atomic against a crash of the process only. Blocks."""

    def exists(self, path: str) -> bool: ...
    def is_dir(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """Names (not paths), sorted."""

    def make_dirs(self, path: str) -> None:
        """With parents; no error where it exists."""

    def rename(self, source: str, target: str) -> None:
        """Files or directories; replaces a target file."""

    def remove(self, path: str) -> None:
        """One file."""

    def remove_tree(self, path: str) -> None:
        """A directory with all that is in it. A symbolic link is removed, not followed."""

    def size(self, path: str) -> int: ...

    def sync_dir(self, path: str) -> None:
        """Make names in a directory durable. Blocks."""

    def try_lock(self, path: str) -> bool:
        """Take the exclusive lock file `path` for this process's life; False where another holds it."""

    def free_bytes(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds `path`."""


class Connection(Protocol):
    """The world's side of one stream, open or being opened. Sends never block."""

    @property
    def peer(self) -> Endpoint: ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes that are queued here and not yet taken by the network: the measure for back-pressure."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Queue bytes in order. The buffers must not change afterwards."""

    def close(self) -> None:
        """Close when the queued bytes are sent. `Receiver.on_closed` follows once."""

    def abort(self) -> None:
        """Close at once and drop the queued bytes. `Receiver.on_closed` follows once."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Receiver(Protocol):
    """The node's side of one stream. It provides buffers, and the world fills them with what arrives."""

    def on_connected(self, connection: Connection) -> None: ...

    def get_buffer(self) -> memoryview:
        """A writable, non-empty buffer for the next bytes."""

    def buffer_updated(self, size: int) -> None:
        """The world wrote `size` bytes to the start of the buffer that `get_buffer` last returned."""

    def on_closed(self, error: OSError | None) -> None:
        """The stream has ended; the last call on this receiver. `error` is None after an orderly end, and
        ``ConnectionRefusedError`` where no process listens at the address."""


class Listener(Protocol):
    @property
    def endpoint(self) -> Endpoint:
        """The address that is bound; with the real port, where port 0 was asked for."""

    def close(self) -> None: ...


class ConnectionRefusal(NamedTuple):
    """A refused connection: `reason` is the limit's configuration key; it is closed after `wait_ms`."""

    reason: str
    wait_ms: float


class ConnectionGate(Protocol):
    """Limits the number and rate of a listener's connections; others wait in its backlog or are closed."""

    def wait_ms(self) -> float:
        """Milliseconds until the next connection may be accepted; 0 where one may be accepted now."""

    def on_accepted(self, host: str) -> ConnectionRefusal | None:
        """Decide on a connection from the address `host`. None accepts and counts it; a refusal does not."""

    def on_ended(self, host: str) -> None:
        """An accepted connection from the address `host` has ended; it no longer counts."""


class Network(Protocol):
    @property
    def capacity(self) -> int:
        """Number of connections that the process can have beside the descriptors that its files need."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes that are queued on all connections together and that the network has not taken yet."""

    def listen(
        self,
        endpoint: Endpoint,
        accept: Callable[[], Receiver],
        gate: ConnectionGate | None = None,
    ) -> Listener:
        """Listen at `endpoint`. For each connection that `gate` admits (None admits all), the world calls
        `accept`, and `on_connected` on the receiver that it returns. Raises ``OSError`` where the address
        is taken."""

    def addresses_of(self, host: str) -> list[str]:
        """The addresses of a host name, in the form of `Connection.peer`. Raises ``OSError``. May block."""

    def machine_name(self) -> str:
        """The host name to advertise for a listener that is bound to all addresses. May block: call it only
        while the node starts."""

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        """Begin to connect. Calls `on_connected` on success, `on_closed` on failure."""


class Background(Protocol):
    """Blocking work off the node's thread."""

    def run(
        self,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        """Run `job` off the node's thread, after earlier jobs of the same `queue`; queues are independent.
        `done` then runs on the node's thread with the result or the exception. The next job of the queue
        may have ended before `done` runs."""

    def run_brief(
        self,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        """Run a job as `run` does that may take less time than handing it to another thread (a sync of a fast
        disk). Where that is likely, `job` and `done` run at once, on the node's thread, before this
        returns."""


class HelperDied(Exception):
    """The helper process could not be started, or ended before it answered."""


class Helper(Protocol):
    """A process beside the node's, for computation that would hold the node up. It ends with the node."""

    def call(self, service: str, request: bytes) -> bytes:
        """The answer of function ``serve`` of the module `service`. Starts the process where it does not run.
        Blocks: call it only in `Background` jobs. Raises :class:`HelperDied`."""

    def close(self) -> None:
        """End the process; an unfinished `call` raises :class:`HelperDied`."""


@runtime_checkable
class HasHelper(Protocol):
    """A world whose nodes may have a helper process."""

    @property
    def helper(self) -> Helper: ...


@runtime_checkable
class HasExportHelper(Protocol):
    """A world whose nodes may send metrics and traces, through a helper process for this alone: a receiver
    that does not answer holds up no other work."""

    @property
    def export_helper(self) -> Helper: ...


class Secrets(Protocol):
    """The port for authentication: cryptographically secure random numbers, and TLS."""

    def token_bytes(self, size: int) -> bytes:
        """`size` cryptographically secure random bytes."""

    def open_tls(
        self,
        settings: Any,
        incoming: Any,
        outgoing: Any,
        *,
        is_server: bool,
        server_name: str | None = None,
    ) -> Any:
        """An ``ssl.SSLObject`` that reads from `incoming` and writes to `outgoing` (``ssl.MemoryBIO``).
        `settings` is a `TlsSettings` of ``security``. Reads certificates again where their files have
        changed. Raises ``OSError``."""

    def check_tls(self, settings: Any, *, is_server: bool) -> None:
        """Read the files that `settings` name. Raises ``ConfigError`` with one sentence where that fails."""

    def answer_variables(self, properties: Any) -> Any:
        """`properties` (a mapping of texts), with the variables in them answered by their
        ``config.providers``: a `Resolved` of ``config``. Raises ``ConfigError``."""

    def certificate_ends_ms(self, settings: Any) -> int | None:
        """When the present certificate of a server with `settings` expires, in ms since 1970-01-01 UTC; None
        where it has none. Raises ``OSError``."""


@runtime_checkable
class HasSecrets(Protocol):
    """A world that can authenticate and encrypt."""

    @property
    def secrets(self) -> Secrets: ...


class WebRequest(NamedTuple):
    """A request to an identity provider: POST with a `form`, else GET. A ``file:`` URL names a file.

    After a transient failure the request is repeated: first after `retry_ms`, then after twice the wait
    before, until `retry_max_ms` have passed."""

    url: str
    form: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    connect_ms: int = 10_000
    read_ms: int = 10_000
    retry_ms: int = 100
    retry_max_ms: int = 0
    trust: Any = None
    """A `TlsSettings` (``security``) of a client; None trusts the authorities that the machine trusts."""

    def __repr__(self) -> str:
        return f"WebRequest({self.url})"

    @property
    def is_file(self) -> bool:
        return self.url.lower().startswith("file:")


class Web(Protocol):
    """Access to identity providers over HTTP."""

    def fetch(self, request: WebRequest) -> bytes:
        """The body of the answer, bounded in size and time. Blocks: call it only in `Background` jobs or
        while the node starts. Raises ``OSError``, whose text has nothing of the request's form and
        headers."""


@runtime_checkable
class HasWeb(Protocol):
    """A world with identity providers."""

    @property
    def web(self) -> Web: ...


class Wakeups(Protocol):
    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` after the present callback has returned. Long work continues this way, in slices."""

    def callback_began_ms(self) -> float:
        """When the node began to work at the present callback: before what it now receives was read."""

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> Wakeup:
        """Run `callback` at the instant `when_ms` of the monotonic clock, unless it is cancelled before."""


class Wakeup(Protocol):
    def cancel(self) -> None: ...


class ClientPorts(Protocol):
    """The ports of a client: it has no files."""

    @property
    def clock(self) -> Clock: ...
    @property
    def network(self) -> Network: ...
    @property
    def background(self) -> Background: ...
    @property
    def wakeups(self) -> Wakeups: ...

    def rng(self, concern: str) -> Rng:
        """A new generator for `concern`. Generators of the same concern give the same numbers; those of
        different concerns are independent."""

    def log(self, level: str, event: str, **fields: object) -> None:
        """One structured line of the node's own log. `level` is debug, info, warning or error."""


class Ports(ClientPorts, Protocol):
    """All ports of one node."""

    @property
    def disk(self) -> Disk: ...
    @property
    def bounds(self) -> NodeBounds:
        """How much the node does in one turn of the loop."""

    def halt(self, reason: str) -> None:
        """End this node's process at once, as a crash would, because its state can no longer be trusted."""
