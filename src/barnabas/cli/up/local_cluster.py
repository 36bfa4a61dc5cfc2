"""A run of the cluster of ``barnabas up``: its coordination, its nodes and what it says, from start to exit
status."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.cli import plain_text
from barnabas.cli.failure import Failure
from barnabas.cli.local.cluster_directory import ClusterDirectory, NodeFiles, bootstrap
from barnabas.cli.local.coordination import Coordination
from barnabas.cli.local.local_security import ADMIN
from barnabas.cli.local.supervisor import Supervisor
from barnabas.cli.plain_text import counted
from barnabas.cli.up.first_checks import USAGE, cluster_id_of
from barnabas.config.meta_properties import FILE_NAME, random_uuid
from barnabas.host.disk import HostDisk
from barnabas.host.loop import end_signals, new_loop
from barnabas.host.process.standard_input import watch_standard_input
from barnabas.types import Endpoint, uuid_text

if TYPE_CHECKING:
    from barnabas.cli.local.console_process import ConsoleProcess
    from barnabas.cli.local.local_security import LocalSecurity
    from barnabas.cli.local.readiness import Readiness
    from barnabas.cli.up.coordinators_topics import CoordinatorsTopics
    from barnabas.host.ports import HostPorts
    from barnabas.security.client_security import ClientSecurity


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
        tell_ready: int | None = None,
    ) -> None:
        """`levels` are those of a new cluster's features, where they are not the newest; `tell_ready` is a
        descriptor that gets a line once the cluster takes writes, and is closed then."""
        self._began = time.monotonic()
        self._files = files
        self._restart = restart
        self._loop = new_loop()
        self._loop.set_exception_handler(self._on_fault)
        self._coordination = coordination
        self._console = console_of(directory) if console else None
        self._tell_ready = tell_ready
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
        self._coordinators_topics: CoordinatorsTopics | None = None
        self._makes_coordinators_topics = False
        self._asked_to_stop = False

    def make_coordinators_topics(self) -> None:
        """Have the topics of the coordinators made once the cluster takes writes."""
        self._makes_coordinators_topics = True

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
        if self._coordinators_topics is not None:
            self._coordinators_topics.close()
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
        if self._tell_ready is not None:
            tell(self._tell_ready)
        if self._makes_coordinators_topics:
            self._ask_for_coordinators()
        if self._console is not None:
            self._console.start(say)

    def _ask_for_coordinators(self) -> None:
        from barnabas.cli.up.coordinators_topics import CoordinatorsTopics

        assert self._ports is not None, "a cluster that takes writes was asked"
        self._coordinators_topics = CoordinatorsTopics(self._ports, self._client_security())
        self._coordinators_topics.ask(self._alive_endpoints()[0])

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


def console_of(directory: ClusterDirectory) -> ConsoleProcess:
    from barnabas.cli.local.console_process import ConsoleProcess

    return ConsoleProcess(directory.path)


def tell(descriptor: int) -> None:
    """Say on `descriptor` that the cluster takes writes; who asked for it may be gone."""
    with suppress(OSError):
        os.write(descriptor, b"ready\n")
    os.close(descriptor)


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
