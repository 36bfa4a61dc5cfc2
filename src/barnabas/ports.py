"""The only way out: time, chance, disk, network and blocking work, as protocols.

Everything in ``node`` and below reaches the world through these and imports no
``asyncio``, ``socket``, ``threading``, ``time``, ``random`` or ``os``. ``host`` implements
them on the real machine, ``sim`` on a simulated one; one contract suite holds both to
the same promises.

All calls are made on the node's one thread, and all callbacks arrive on it.
Durations and instants are milliseconds; sizes and positions are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from barnabas.limits import NodeBounds
from barnabas.types import Buffer, Endpoint

T = TypeVar("T")


def call_all(callbacks: Iterable[Callable[[], object]]) -> None:
    """Call each. The first exception is raised after all were called, so that one failure skips no other."""
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

    def told() -> None:
        raise fault

    wakeups.call_soon(told)


class Clock(Protocol):
    def now_ms(self) -> float:
        """Monotonic instant in milliseconds; never goes back, says nothing about the date."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump."""


class Rng(Protocol):
    """The part of ``random.Random`` that deciders may use. One generator per concern."""

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
        """Present length in bytes (from memory, no system call)."""

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write `parts` one after the other at the end; all or an ``OSError`` (then the tail is
        undefined and the caller truncates). Returns the position the first byte went to."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file. May block on the device."""

    def try_read_at(self, position: int, size: int) -> Buffer | None:
        """As `read_at`, but None where the bytes are not in memory and reading would block."""

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

    def remove_tree(self, path: str) -> None: ...

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
        """Queued here and not yet taken by the network; what back-pressure looks at."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Queue bytes in order. The buffers must not change afterwards."""

    def close(self) -> None:
        """Close after what is queued. `on_closed` follows once."""

    def abort(self) -> None:
        """Close at once, dropping what is queued. `on_closed` follows once."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Receiver(Protocol):
    """The node's side of one stream. The world fills the buffers it hands out."""

    def on_connected(self, connection: Connection) -> None: ...

    def get_buffer(self) -> memoryview:
        """A writable, non-empty buffer for the next bytes."""

    def buffer_updated(self, size: int) -> None:
        """`size` bytes of the last buffer were filled."""

    def on_closed(self, error: OSError | None) -> None:
        """Last call on this receiver. `ConnectionRefusedError` where no process listens (so the
        peer's process is gone); None on an orderly end."""


class Listener(Protocol):
    @property
    def endpoint(self) -> Endpoint:
        """With the real port, where 0 was asked."""

    def close(self) -> None: ...


class ConnectionRefusal(NamedTuple):
    """Why a connection is not served: the key of the limit, and how long its end is put off."""

    reason: str
    wait_ms: float


class ConnectionGate(Protocol):
    """How many connections a listener takes, and how quickly. Others wait in its backlog, or are closed."""

    def wait_ms(self) -> float:
        """How long until the next connection may be accepted; 0 where it may now."""

    def on_accepted(self, host: str) -> ConnectionRefusal | None:
        """A connection of the address `host` has come; it is counted unless it is refused."""

    def on_ended(self, host: str) -> None:
        """A connection that was not refused has ended."""


class Network(Protocol):
    @property
    def capacity(self) -> int:
        """How many connections the process can have: files need descriptors, too."""

    @property
    def unsent_bytes(self) -> int:
        """Sent on any connection and not yet taken by the network."""

    def listen(
        self,
        endpoint: Endpoint,
        accept: Callable[[], Receiver],
        gate: ConnectionGate | None = None,
    ) -> Listener:
        """Raises ``OSError`` where the address is taken. `accept` is called per connection that `gate` lets
        in; `on_connected` follows on what it returns."""

    def addresses_of(self, host: str) -> list[str]:
        """The addresses that a host has, as a peer's is given. Raises ``OSError``. May block."""

    def machine_name(self) -> str:
        """By which others reach a listener on every address of this machine. May block: for the start."""

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        """Begin to connect; ends in `on_connected` or `on_closed`."""


class Background(Protocol):
    """Blocking work off the node's thread."""

    def run(
        self,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        """Run `job` in order after earlier jobs of the same `queue`; queues are independent.
        `done` gets the result or the exception, on the node's thread, perhaps when the next job of the
        queue is over as well."""

    def run_brief(
        self,
        queue: str,
        job: Callable[[], T],
        done: Callable[[T | BaseException], None],
    ) -> None:
        """As `run`, for a job that may be over sooner than a thread could take it up (a sync of a quick
        disk): where it can be expected to be, it is done at once, on the node's thread, and `done` is
        called before this returns."""


class HelperDied(Exception):
    """The helper process could not be started, or ended before it answered."""


class Helper(Protocol):
    """A process beside the node's, for computation that would hold the node up. It ends with the node."""

    def call(self, service: str, request: bytes) -> bytes:
        """What ``serve`` of the module `service` answers. Blocks: for `Background` jobs. A process that
        is not there is started. Raises :class:`HelperDied`."""

    def close(self) -> None:
        """End the process; a call under way raises."""


@runtime_checkable
class HasHelper(Protocol):
    """A world whose nodes may have a helper process."""

    @property
    def helper(self) -> Helper: ...


class Secrets(Protocol):
    """What authentication takes from the world: random numbers that cannot be guessed, and TLS."""

    def token_bytes(self, size: int) -> bytes:
        """Random bytes that cannot be guessed from earlier ones."""

    def open_tls(
        self,
        settings: Any,
        incoming: Any,
        outgoing: Any,
        *,
        is_server: bool,
        server_name: str | None = None,
    ) -> Any:
        """An ``ssl.SSLObject`` between two memory buffers, by a ``security`` `TlsSettings`. Certificates
        are read again where their files have changed. Raises ``OSError``."""

    def check_tls(self, settings: Any, *, is_server: bool) -> None:
        """Read what `settings` name. Raises ``ConfigError`` with one sentence."""

    def certificate_ends_ms(self, settings: Any) -> int | None:
        """When the certificate ends that a server with `settings` shows now, in ms since 1970. Raises
        ``OSError``."""


@runtime_checkable
class HasSecrets(Protocol):
    """A world that can authenticate and encrypt."""

    @property
    def secrets(self) -> Secrets: ...


class WebRequest(NamedTuple):
    """One question to an identity provider: GET, or POST where there is a `form`. ``file:`` addresses name
    files. Times in ms; a failure that may pass is tried again until `retry_max_ms` have passed."""

    url: str
    form: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    connect_ms: int = 10_000
    read_ms: int = 10_000
    retry_ms: int = 100
    retry_max_ms: int = 0
    trust: Any = None
    """``security`` `TlsSettings` of a client; None trusts what the machine does."""

    def __repr__(self) -> str:
        return f"WebRequest({self.url})"

    @property
    def is_file(self) -> bool:
        return self.url.lower().startswith("file:")


class Web(Protocol):
    """What identity providers publish and answer."""

    def fetch(self, request: WebRequest) -> bytes:
        """The body of the answer, bounded in size and time. Blocks: for `Background` jobs and the start.
        Raises ``OSError``, whose text has nothing of the request's form and headers."""


@runtime_checkable
class HasWeb(Protocol):
    """A world with identity providers."""

    @property
    def web(self) -> Web: ...


class Wakeups(Protocol):
    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run after what is being handled now (a slice of long work continues so)."""

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> Wakeup: ...


class Wakeup(Protocol):
    def cancel(self) -> None: ...


class Ports(Protocol):
    """The world, as one node gets it."""

    @property
    def clock(self) -> Clock: ...
    @property
    def disk(self) -> Disk: ...
    @property
    def network(self) -> Network: ...
    @property
    def background(self) -> Background: ...
    @property
    def wakeups(self) -> Wakeups: ...
    @property
    def bounds(self) -> NodeBounds:
        """How much the node does in one go."""

    def rng(self, concern: str) -> Rng:
        """An independent generator per concern; the same name gives the same stream."""

    def log(self, level: str, event: str, **fields: object) -> None:
        """One structured line of the node's own log. `level` is debug, info, warning or error."""

    def halt(self, reason: str) -> None:
        """End this node's process at once, as a crash would: state can no longer be trusted."""
