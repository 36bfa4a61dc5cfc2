"""All znodes of a cluster that keeps its metadata in ZooKeeper, for commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.cli.connection.connect import USAGE
from barnabas.cli.connection.silence import Silence
from barnabas.cli.failure import Failure
from barnabas.cli.progress import ProgressLine, has_onlooker
from barnabas.config.definition import ConfigError
from barnabas.host.loop import Loop
from barnabas.host.tls_contexts import HostSecrets
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.operations import (
    ChildNames,
    Exists,
    GetChildren,
    GetData,
    NodeData,
    Request,
)
from barnabas.zookeeper.session import (
    SessionSettings,
    SessionState,
    WatchEvent,
    ZooKeeperSession,
)

TIMEOUT_S = 20.0
IN_FLIGHT = 100
KAFKA_ROOT = "/brokers"


def read_znodes(
    connect: str, within_s: float = TIMEOUT_S, *, as_json: bool = False
) -> dict[str, NodeData]:
    """The znodes at and below `host:port/chroot`, by path. Raises `Failure`, also where ZooKeeper is silent
    for `within_s`."""
    try:
        from barnabas.host.zookeeper.sessions import HostZooKeeper
    except ImportError as error:
        raise Failure(
            "ZooKeeper is read by the package kazoo: pip install 'barnabas[zookeeper]'", USAGE
        ) from error
    loop = Loop()
    silence = Silence(loop, within_s)
    line = ProgressLine("znodes", is_shown=has_onlooker(as_json))
    reading = _Reading(loop, silence, line)
    address, slash, chroot = connect.partition("/")
    settings = SessionSettings(address, max_in_flight=IN_FLIGHT)
    secrets = HostSecrets(_no_log)
    try:
        session = HostZooKeeper(loop, _no_log, lambda: secrets).open(settings, reading)
    except (ConfigError, ValueError) as error:
        raise Failure(f"--zookeeper {connect}: {error}", USAGE) from error
    reading.begin(session, SessionSettings(connect).chroot if slash else "")
    with line:
        loop.run_forever()
    session.close()
    if not reading.is_done:
        read = f", after {len(reading.znodes):,} znodes" if reading.znodes else ""
        raise Failure(f"no ZooKeeper answers at {address} within {within_s:g} s{read}")
    if reading.error is not None:
        raise Failure(f"ZooKeeper at {address} answers {reading.error}")
    if not chroot and KAFKA_ROOT not in reading.znodes:
        raise Failure(f"{address} has no cluster at /: name its chroot, as {address}/kafka")
    return reading.znodes


def _no_log(*_: object, **__: object) -> None:
    """A command says what it found itself."""


class _Reading:
    """One walk through the tree. A chroot is a prefix here: a command makes no znode."""

    def __init__(self, loop: Loop, silence: Silence, line: ProgressLine) -> None:
        self.znodes: dict[str, NodeData] = {}
        self.is_done = False
        self.error: ZooKeeperError | None = None
        self._loop = loop
        self._silence = silence
        self._line = line
        self._session: ZooKeeperSession
        self._chroot = ""
        self._open = 0

    def begin(self, session: ZooKeeperSession, chroot: str) -> None:
        self._session, self._chroot = session, chroot

    def on_session_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and not self._open and not self.is_done:
            self._ask(Exists(self._chroot or "/"), self._on_root)
        elif state.is_final:
            self._loop.stop()

    def on_watch(self, event: WatchEvent) -> None:
        """No watch is set."""

    def _ask(self, request: Request[Any], done: Callable[[Any], None]) -> None:
        self._open += 1

        def answered(answer: Any) -> None:
            self._open -= 1
            self._silence.end()
            self._line.update(len(self.znodes))
            if isinstance(answer, NoNode):
                pass  # it was deleted meanwhile
            elif isinstance(answer, ZooKeeperError):
                self.error = answer
            else:
                done(answer)
            if not self._open:
                self.is_done = True
                self._loop.stop()

        self._session.submit(request, answered)

    def _on_root(self, stat: object) -> None:
        if stat is None:
            self.error = NoNode(self._chroot)
        else:
            self._walk("")

    def _walk(self, path: str) -> None:
        at = (self._chroot + path) or "/"
        self._ask(GetChildren(at), lambda found: self._on_children(path, found))
        if path:
            self._ask(GetData(at), lambda data: self.znodes.__setitem__(path, data))

    def _on_children(self, path: str, found: ChildNames) -> None:
        for name in found.names:
            self._walk(f"{path}/{name}")
