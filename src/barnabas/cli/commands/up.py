"""``barnabas up``: a cluster of node processes on this machine, for everyday use, tests and demos."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from barnabas.cli import plain_text
from barnabas.cli.connection.unknown_keys import sentences_on_unknown
from barnabas.cli.failure import Failure
from barnabas.cli.feature_options import RELEASE, USAGE, WANTED, first_levels
from barnabas.cli.local.cluster_directory import ClusterDirectory, NodeFiles, bootstrap
from barnabas.cli.local.console_process import ConsoleProcess
from barnabas.cli.local.coordination import Coordination, coordination_of
from barnabas.cli.local.local_security import ADMIN
from barnabas.cli.local.standard_input import watch_standard_input
from barnabas.cli.local.supervisor import Supervisor
from barnabas.cli.plain_text import counted
from barnabas.config.meta_properties import (
    FILE_NAME,
    DirectoryError,
    parse_meta_properties,
    random_uuid,
)
from barnabas.host.disk import HostDisk
from barnabas.host.loop import end_signals, new_loop
from barnabas.host.programs.removable_directory import mark_removable, remove_if_marked
from barnabas.host.system.processes import has_ended
from barnabas.types import Endpoint, uuid_text

if TYPE_CHECKING:
    from barnabas.cli.local.local_security import LocalSecurity
    from barnabas.cli.local.readiness import Readiness
    from barnabas.host.ports import HostPorts
    from barnabas.security.client_security import ClientSecurity

ZOOKEEPER_MODE_NODES = 3
"""The nodes of a new cluster that ZooKeeper coordinates."""
QUORUM_STATE = "__cluster_metadata-0/quorum-state"
PREDECESSOR_S = 6.0
"""How long the nodes of an ``up`` that was killed may take to end."""

EPHEMERAL = typer.Option(
    False,
    "--ephemeral",
    help="Keep data in a temporary directory, which is removed at the end; end with standard input, too.",
)
PORT = typer.Option(
    None,
    min=1,
    max=65535,
    help="Where clients find node 1, with the other nodes at the next ports"
    " (default: ports that are free, kept from start to start).",
)
SECURE = typer.Option(
    False,
    "--secure",
    help="TLS, SASL and an authorizer on every node, with an authority, certificates and users for them;"
    " DIR/client.properties is what clients need. A secure cluster stays so.",
)
REMOVE_AT_END = typer.Option(None, hidden=True)
END_WITH_INPUT = typer.Option(False, "--end-with-input", hidden=True)
ZOOKEEPER_SERVERS = typer.Option(
    None, min=1, max=7, help="How many ZooKeeper servers to start (default: 1)."
)
ZOOKEEPER_SERVER = typer.Option(
    "", metavar="apache|barnabas", help="Whose to start (default: Apache's if Java is there)."
)


def command(
    nodes: int | None = typer.Option(
        None, min=1, max=100, help="How many (default: those in DIR, or 1; with ZooKeeper 3)."
    ),
    data: Path | None = typer.Option(None, help="The cluster's directory; made if missing."),
    ephemeral: bool = EPHEMERAL,
    port: int | None = PORT,
    setting: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="A property for every node; may be repeated."
    ),
    racks: str = typer.Option(
        "", metavar="RACK,...", help="Racks of the nodes, dealt out in turn; sets broker.rack."
    ),
    secure: bool = SECURE,
    release: str | None = RELEASE,
    feature: list[str] = WANTED,
    restart: bool = typer.Option(False, help="Start a node again that died."),
    console: bool = typer.Option(
        False, "--console", help="Serve pages about it in a browser, too."
    ),
    replace_lost: bool = typer.Option(
        False, "--replace-lost", help="Let a node whose directory was lost begin with an empty one."
    ),
    coordination: str = typer.Option(
        "", metavar="kraft|zookeeper", help="Who coordinates a new cluster (default: kraft)."
    ),
    zookeeper: str = typer.Option(
        "", metavar="HOST:PORT[/CHROOT]", help="The ZooKeeper ensemble to use (default: its own)."
    ),
    zookeeper_server: str = ZOOKEEPER_SERVER,
    zookeeper_servers: int | None = ZOOKEEPER_SERVERS,
    remove_at_end: Path | None = REMOVE_AT_END,
    end_with_input: bool = END_WITH_INPUT,
) -> None:
    """Start a cluster on loopback; Ctrl-C or SIGTERM stops it cleanly.

    Prints `bootstrap: host:port,...` once the cluster takes writes. DIR/cluster.json says what runs.
    """
    settings = parse_settings(setting)
    levels = first_levels(release, feature)
    with place_of(data, ephemeral=ephemeral, remove=remove_at_end) as directory:
        await_predecessors(directory)
        dealt = [rack for rack in racks.split(",") if rack]
        secure = secure or directory.security.is_there
        chosen = coordination_of(
            directory.path,
            directory.zookeeper,
            has_cluster=bool(directory.nodes()),
            wanted=coordination,
            ensemble=zookeeper,
            servers=zookeeper_servers,
            server=zookeeper_server,
        )
        if chosen.connect and nodes is None and not directory.nodes():
            nodes = ZOOKEEPER_MODE_NODES
        files = directory.lay_out(
            nodes, settings, port, dealt, secure=secure, zookeeper=chosen.connect
        )
        check(files)
        if levels:
            check_may_begin(files, chosen)
        if not replace_lost and not chosen.connect:
            check_no_voter_is_lost(files)
        cluster = LocalCluster(directory, files, restart, chosen, console, levels)
        if ephemeral or end_with_input:
            cluster.end_with_standard_input()
        status = cluster.run()
    raise typer.Exit(status)


@contextmanager
def place_of(
    data: Path | None, *, ephemeral: bool, remove: Path | None
) -> Iterator[ClusterDirectory]:
    """The cluster's directory, locked. One that is ephemeral is removed at the end; so is `remove`, a folder
    around it that is marked as removable."""
    if data is None and not ephemeral:
        raise Failure("--data DIR is missing; --ephemeral needs none", USAGE)
    if data is not None and ephemeral:
        raise Failure("--ephemeral has a directory of its own: leave out --data", USAGE)
    if data is None:
        data = remove = Path(tempfile.mkdtemp(prefix="barnabas-"))
        mark_removable(data)
    directory = ClusterDirectory(data)
    directory.lock()  # a directory that is in use is not removed
    try:
        yield directory
    finally:
        if remove is not None:
            remove_if_marked(remove)


class LocalCluster:
    """A run of the cluster, from start to exit status."""

    def __init__(
        self,
        directory: ClusterDirectory,
        files: list[NodeFiles],
        restart: bool,
        coordination: Coordination,
        console: bool = False,
        levels: Mapping[str, int] | None = None,
    ) -> None:
        """`levels` are those of a new cluster's features, where they are not the newest."""
        self._began = time.monotonic()
        self._files = files
        self._restart = restart
        self._loop = new_loop()
        self._loop.set_exception_handler(self._on_fault)
        self._coordination = coordination
        self._console = ConsoleProcess(directory.path) if console else None
        known = None if coordination.connect else cluster_id_of(files)
        cluster_id = known or uuid_text(random_uuid(os.urandom))
        self._security = directory.security if directory.security.is_there else None
        if (levels or self._security is not None) and not coordination.connect:
            format_cluster(files, cluster_id, levels or {}, self._security)
        self._supervisor = Supervisor(
            self._loop,
            directory,
            files,
            cluster_id=cluster_id,
            restart=restart,
            report=say,
            on_change=self._on_change,
            on_stopped=self._loop.stop,
        )
        self._ports: HostPorts | None = None
        self._readiness: Readiness | None = None
        self._ready = False
        self._asked_to_stop = False

    def end_with_standard_input(self) -> None:
        watch_standard_input(self._loop, self._stop)

    def run(self) -> int:
        for number in end_signals():
            self._loop.add_signal_handler(number, self._stop)
        self._loop.add_signal_handler(signal.SIGUSR1, self._supervisor.adopt)
        self._coordination.start()
        try:
            return self._run_nodes()
        finally:
            if self._console is not None:
                self._console.stop()
            self._coordination.stop()

    def _run_nodes(self) -> int:
        if self._coordination.note:
            say(self._coordination.note)
        if self._coordination.connect:
            say(f"zookeeper: {self._coordination.connect}")
            if self._security is not None:
                from barnabas.cli.local.zookeeper_users import write_users

                write_users(self._coordination.connect, self._security.bootstrap_records())
        try:
            self._supervisor.start()
        except OSError as error:
            raise Failure(f"the nodes cannot be started: {error}") from error
        for node in self._supervisor.nodes:
            say(f"node {node.files.node_id}: pid {node.pid}, log {node.files.log}")
        self._await_readiness()
        self._loop.run_forever()
        self._close()
        clean = self._asked_to_stop and not self._supervisor.killed
        return 0 if clean else 1

    def _await_readiness(self) -> None:
        # Only now: the nodes are starting while this process loads what asks them.
        from barnabas.cli.local.readiness import Readiness
        from barnabas.host.ports import HostPorts
        from barnabas.host.structured_log import StructuredLog

        self._ports = HostPorts(self._loop, StructuredLog(2, "warning"))
        self._readiness = Readiness(
            self._ports, self._alive_endpoints, self._on_ready, self._client_security()
        )
        self._readiness.begin()

    def _client_security(self) -> ClientSecurity:
        from barnabas.security.client_keys import client_security

        if self._security is None:
            return client_security({})
        return client_security(self._security.client_properties(ADMIN))

    def _close(self) -> None:
        if self._readiness is not None:
            self._readiness.close()
        if self._ports is not None:
            self._ports.network.abort_all()
            self._ports.stop()
        self._loop.close()

    def _alive_endpoints(self) -> list[Endpoint]:
        return [node.files.client_endpoint for node in self._supervisor.alive]

    def _on_ready(self) -> None:
        self._ready = True
        took = time.monotonic() - self._began
        say(f"bootstrap: {bootstrap(self._files)}")
        say(
            f"export BARNABAS_BOOTSTRAP={bootstrap(self._files)}   # for barnabas in another terminal"
        )
        if self._security is not None:
            say(
                f"export BARNABAS_COMMAND_CONFIG={self._security.client_file}"
                "   # the administrator's client.properties"
            )
        alive = len(self._supervisor.alive)
        say(
            f"{counted(alive, 'node')} {'takes' if alive == 1 else 'take'} writes after {took:.2f} s"
        )
        if self._console is not None:
            self._console.start(say)

    def _on_change(self) -> None:
        """Stop when no node runs and none will start."""
        if not self._supervisor.alive and not self._restart and not self._ready:
            self._loop.stop()

    def _on_fault(self, message: str, error: Exception) -> None:
        """Nodes run on, whatever this process cannot do."""
        say(f"{message}: {''.join(traceback.format_exception(error))}")

    def _stop(self) -> None:
        self._asked_to_stop = True
        if self._readiness is not None:
            self._readiness.close()
        self._supervisor.stop()


def check_may_begin(files: Sequence[NodeFiles], coordination: Coordination) -> None:
    """Refuse levels of features for a cluster that has its own. Raises :class:`Failure`."""
    if coordination.connect:
        raise Failure("ZooKeeper keeps no levels of features", USAGE)
    if cluster_id_of(files) is not None:
        raise Failure(
            "levels are for a new cluster: `barnabas features upgrade` and `downgrade` change those of one"
            " that is there",
            USAGE,
        )


def format_cluster(
    files: Sequence[NodeFiles],
    cluster_id: str,
    levels: Mapping[str, int],
    security: LocalSecurity | None,
) -> None:
    """Format the directories of a new cluster with the levels of its features, its users and their ACLs.
    Raises :class:`Failure`."""
    from barnabas.host.secrets.config_files import node_config
    from barnabas.metadata.storage_format import format_node

    records = [] if security is None else security.bootstrap_records()
    wall_ms = time.time_ns() // 1_000_000
    for node in files:
        if (node.data / FILE_NAME).exists():
            continue
        config = node_config(node.properties.read_text())
        try:
            format_node(
                HostDisk(),
                config,
                cluster_id,
                os.urandom,
                wall_ms,
                features=levels,
                records=records,
            )
        except OSError as error:
            raise Failure(f"{node.data} cannot be formatted: {error.strerror}") from error
        except ValueError as error:
            raise Failure(str(error), USAGE) from error


def say(line: str) -> None:
    """One line for people, at once. A reader that went away or a full disk loses it, never the cluster."""
    try:
        plain_text.say(line)
    except BrokenPipeError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except OSError:
        pass  # it waits in the stream's buffer for the next one


def parse_settings(items: Sequence[str]) -> dict[str, str]:
    """``key=value`` items. Raises :class:`Failure`."""
    settings = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise Failure(f"--set takes KEY=VALUE, not {item!r}", 2)
        settings[key.strip()] = value.strip()
    return settings


def await_predecessors(directory: ClusterDirectory) -> None:
    """Nodes whose ``up`` was killed are ending: wait for them. Raises :class:`Failure`."""
    state = directory.read_state() or {"nodes": []}
    deadline = time.monotonic() + PREDECESSOR_S
    for entry in state["nodes"]:
        pid = entry["pid"]
        lock = Path(entry["properties"]).parent / "data" / ".lock"
        if pid is None or not _is_locked(lock):
            continue
        if not has_ended(pid, max(0.0, deadline - time.monotonic())):
            raise Failure(f"node {entry['id']} of {directory.path} already runs: pid {pid}")


def _is_locked(lock: Path) -> bool:
    """Whether a node's process has this log directory."""
    if not lock.exists():
        return False
    disk = HostDisk()
    free = disk.try_lock(str(lock))
    disk.unlock_all()
    return not free


def cluster_id_of(files: Sequence[NodeFiles]) -> str | None:
    """The cluster id of the first node whose directory is formatted. Raises :class:`Failure`."""
    for node in files:
        path = node.data / FILE_NAME
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            return parse_meta_properties(text, str(path)).cluster_id
        except FileNotFoundError:
            continue
        except (OSError, DirectoryError) as error:
            raise Failure(str(error)) from error
    return None


def check_no_voter_is_lost(nodes: Sequence[NodeFiles]) -> None:
    """Refuse a voter that would begin empty in a quorum that has voted: it may have voted in this epoch, or
    have held what a majority rests on. Raises :class:`Failure`."""
    lost = [node for node in nodes if not (node.data / FILE_NAME).exists()]
    voted = [node for node in nodes if (node.data / QUORUM_STATE).exists()]
    if not lost or not voted:
        return
    names = " and ".join(f"node {node.node_id} ({node.data})" for node in lost)
    raise Failure(
        f"{names} votes and its directory is empty, though the cluster has run: a voter that forgets"
        " its votes and its log can undo what was decided. Bring the directory back; or, where it is lost"
        f" for good and the other {len(nodes) - len(lost)} of {len(nodes)} voters have theirs, say"
        " --replace-lost: it copies everything from them"
    )


def check(nodes: Sequence[NodeFiles]) -> None:
    """Refuse values that no node would start with, and name the keys that no node reads. Raises
    :class:`Failure`."""
    from barnabas.config.definition import ConfigError
    from barnabas.host.secrets.config_files import node_config

    unknown: dict[str, None] = {}
    try:
        for node in nodes:
            config = node_config(node.properties.read_text())
            unknown.update(dict.fromkeys(sentences_on_unknown(config)))
    except ConfigError as error:
        raise Failure(str(error)) from error
    for sentence in unknown:
        say(sentence)
