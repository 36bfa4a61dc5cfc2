"""Runs one node in this process: ``python -m barnabas.host.main [--format-as CLUSTER] FILE.properties``.

Reads the file and starts the node. SIGTERM, SIGINT or SIGHUP begins a controlled shutdown; a further SIGINT
cuts it short. Exit status: 0 after a controlled shutdown, 1 if the node could not start (with a sentence on
standard error) or its shutdown was cut short, 70 if it halted itself. Imports only what a start needs.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from barnabas import limits
from barnabas.config.coordination import QUORUM
from barnabas.config.definition import ConfigError
from barnabas.config.meta_properties import DirectoryError
from barnabas.config.node import NodeConfig
from barnabas.config.properties import FAULTS_KEY
from barnabas.host.disk import HostDisk, sentence_of
from barnabas.host.garbage_collector import GarbageCollector
from barnabas.host.loop import Loop, end_signals, new_loop
from barnabas.host.loop_watchdog import LoopWatchdog
from barnabas.host.ports import HostPorts
from barnabas.host.process.end_request import EndRequest
from barnabas.host.process.service_notices import ServiceNotices
from barnabas.host.process.standard_streams import fill_standard_streams
from barnabas.host.secrets.config_files import node_config
from barnabas.host.structured_log import StructuredLog
from barnabas.host.system import PARENT
from barnabas.log.errors import CorruptLogError
from barnabas.metadata.storage_format import format_node
from barnabas.node.node import Node
from barnabas.ports import no_work
from barnabas.raft.core.election_state import QuorumStateError
from barnabas.raft.storage.snapshot_files import CorruptSnapshotError

DAMAGE_ERRORS = (QuorumStateError, CorruptSnapshotError, CorruptLogError)
"""Damaged files of the quorum with which this replica could break a promise: the node does not start."""
LOG_LEVEL_VARIABLE = "BARNABAS_LOG_LEVEL"
SIGNAL_AGAIN_S = 0.05
"""Interval in which a signal that came during the start is looked at again."""
CLOSING_CHECK_S = 2.0
"""Interval in which a long shutdown must close at least one log. It is longer than the quorum's replica takes
to stop afterwards."""


class StartError(Exception):
    """The reason, in one sentence, why the node cannot start."""


def load_config(path: str) -> NodeConfig:
    """The configuration in the properties file `path`. Raises :class:`StartError`."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        return node_config(text)
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error
    except ConfigError as error:
        raise StartError(f"{path}: {error}") from error
    except ValueError as error:
        raise StartError(f"{path} is no properties file: {error}") from error


class RunnableNode(Protocol):
    """A node, whatever coordinates its cluster."""

    def start(self, between_logs: Callable[[], None], /) -> None: ...
    def begin_shutdown(self, on_done: Callable[[], None]) -> None: ...
    def why_not_ready(self) -> str: ...

    @property
    def logs_closed(self) -> int: ...


def new_ports(loop: Loop, journal: StructuredLog, config: NodeConfig) -> HostPorts:
    """The ports of a node; those to ZooKeeper where its configuration asks for them."""
    if config.coordination is QUORUM:
        return HostPorts(loop, journal, config)
    from barnabas.host.zookeeper.ports import ZookeeperPorts

    return ZookeeperPorts(loop, journal, config)


def new_node(config: NodeConfig, ports: HostPorts, journal: StructuredLog) -> RunnableNode:
    """The node of `config`; not started yet."""
    if config.coordination is QUORUM:
        return Node(config, ports, journal.loggers)
    from barnabas.zookeeper.door import new_node as new_zookeeper_node

    return new_zookeeper_node(config, ports, journal.loggers)


class NodeProcess:
    """One node on one loop, from start to exit status."""

    def __init__(self, config: NodeConfig, journal: StructuredLog) -> None:
        self._began = time.monotonic()
        self._loop = new_loop()
        self._loop.set_exception_handler(self._on_unhandled)
        self.ports = self.new_ports(self._loop, journal, config)
        self.config = config
        self._node = new_node(config, self.ports, journal)
        self._status = 0
        self._starting = self._stopping = False
        self._turned_s = 0.0
        self._watchdog = LoopWatchdog(self._loop, self.ports.log)
        self._notices = ServiceNotices(
            self._loop, self.ports.log, os.environ, self._node.why_not_ready
        )
        self._collector = GarbageCollector()

    @classmethod
    def load(cls, path: str) -> NodeConfig:
        """The configuration in the properties file `path`. Raises :class:`StartError`."""
        config = load_config(path)
        if config.values[FAULTS_KEY]:
            raise StartError(f"{path}: {FAULTS_KEY} is for nodes that barnabas.testing starts")
        return config

    def new_ports(self, loop: Loop, journal: StructuredLog, config: NodeConfig) -> HostPorts:
        return new_ports(loop, journal, config)

    def run(self, end_request: EndRequest | None = None) -> int:
        """Serve until a signal ends the node, or standard input does where `end_request` says so; not at all
        if a signal came before. Returns the exit status. Raises :class:`StartError`."""
        for number in end_signals():
            self._loop.add_signal_handler(number, self._on_signal, number)
        if end_request is not None and end_request.with_input:
            from barnabas.host.process.standard_input import watch_standard_input

            watch_standard_input(self._loop, lambda: self._on_signal(signal.SIGTERM))
        try:
            if end_request is None or not end_request.is_made:
                self._start()
                self._loop.run_forever()
        finally:
            self._collector.end()
            self._watchdog.stop()
            self._notices.stop()
            self.ports.network.abort_all()
            self.ports.stop(wait=self._status == 0)
            self._loop.close()
        return self._status

    def _start(self) -> None:
        for name, near in self.config.unknown_keys().items():
            meant = {} if near is None else {"did_you_mean": near}
            self.ports.log("warning", "config.unknown_key", key=name, **meant)
        self._starting = True
        self._notices.start()
        is_watched = self._notices.are_wanted or self.config.values["metrics.listeners"]
        try:
            self._node.start(self._turn_once if is_watched else no_work)
        except (DirectoryError, ConfigError, *DAMAGE_ERRORS) as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(sentence_of(error)) from error
        self._starting = False
        self._loop.housekeeper = self._collector
        self._collector.begin()
        took_ms = (time.monotonic() - self._began) * 1000
        self.ports.log("info", "node.started", node=self.config.node_id, took_ms=took_ms)
        self._loop.call_soon(self._watch_turns)

    def _turn_once(self) -> None:
        """One turn of the loop during the start, so that health is answered while logs are opened."""
        if time.monotonic() - self._turned_s >= limits.SLICE_MS / 1000:
            self._loop.stop()
            self._loop.run_forever()
            self._turned_s = time.monotonic()

    def _watch_turns(self) -> None:
        """Measure turns from now on, since the start itself was one long turn."""
        times = self._loop.times
        times.reset()
        times.report_slow(lambda turn: self.ports.log("debug", "loop.slow_turn", **turn.describe()))
        self._watchdog.start()

    def _on_signal(self, number: signal.Signals) -> None:
        name = signal.Signals(number).name
        if self._starting:
            self._loop.call_later(SIGNAL_AGAIN_S, self._on_signal, number)
            return
        if self._stopping:
            if number == signal.SIGINT:
                self._finish(1, "a second Ctrl-C")
            return
        self._stopping = True
        self.ports.log("info", "node.stopping", signal=name)
        self._notices.stopping()
        self._loop.call_later(limits.SHUTDOWN_MS_MAX / 1000, self._cut_short, 0)
        self._node.begin_shutdown(lambda: self._finish(0, ""))

    def _cut_short(self, logs_closed: int) -> None:
        """Cut a long shutdown short, unless it still closes logs: after a clean shutdown the broker stays
        eligible for its partitions, which is worth the wait."""
        closed = self._node.logs_closed
        if closed > logs_closed:
            self._loop.call_later(CLOSING_CHECK_S, self._cut_short, closed)
        else:
            self._finish(1, "it took too long")

    def _finish(self, status: int, cut_short_by: str) -> None:
        if cut_short_by:
            self.ports.log("warning", "node.shutdown_cut_short", reason=cut_short_by)
            os._exit(status)  # without waiting for what runs in the background
        figures = self._loop.times.describe() | self._collector.describe()
        self.ports.log("info", "node.stopped", **figures)
        self._status = status
        # Not at once: callbacks that are queued in this turn run first.
        self._loop.call_soon(self._loop.stop)

    def _on_unhandled(self, message: str, error: Exception) -> None:
        import traceback  # takes 5 ms to import, and is needed only here

        self.ports.log(
            "error",
            "node.fault",
            message=message,
            error=repr(error),
            traceback="".join(traceback.format_exception(error)),
        )


def allow_many_files() -> None:
    """Raise the limit of open files to the hard limit: a partition needs several."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the system's own limit may be lower by now
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def format_missing(config: NodeConfig, cluster_id: str) -> None:
    """Format the node's unformatted directories for `cluster_id`. Raises :class:`StartError`."""
    try:
        format_node(HostDisk(), config, cluster_id, os.urandom, time.time_ns() // 1_000_000)
    except DirectoryError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(sentence_of(error)) from error


def run_node(
    path: str,
    format_as: str | None = None,
    *,
    end_request: EndRequest | None = None,
    process: type[NodeProcess] = NodeProcess,
) -> int:
    """Run the node of the properties file `path` until it ends. `end_request` has taken note of signals while
    the program was loaded. Returns the exit status."""
    end_request = end_request or EndRequest()
    gc.disable()
    allow_many_files()
    from barnabas.host.system.memory import keep_freed_memory

    keep_freed_memory()
    try:
        config = process.load(path)
        if end_request.is_made:
            return 0
        if format_as is not None and config.coordination.is_formatted:
            format_missing(config, format_as)
        return process(config, _journal()).run(end_request)
    except (StartError, DirectoryError, ConfigError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _journal() -> StructuredLog:
    level = os.environ.get(LOG_LEVEL_VARIABLE, "info")
    try:
        return StructuredLog(2, level)
    except ValueError as error:
        raise StartError(f"{LOG_LEVEL_VARIABLE}: {error}") from error


def main(arguments: Sequence[str], process: type[NodeProcess] = NodeProcess) -> int:
    fill_standard_streams()
    if PARENT in os.environ:
        from barnabas.host.system.processes import end_with_named_parent

        end_with_named_parent()
    match arguments:
        case [path]:
            return run_node(path, process=process)
        case ["--format-as", cluster_id, path]:
            return run_node(path, cluster_id, process=process)
    sys.stderr.write("usage: python -m barnabas.host.main [--format-as CLUSTER] FILE.properties\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
