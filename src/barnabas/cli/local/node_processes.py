"""How a node becomes a process of its own, that ends when its parent does.

The first nodes are forked from a parent that has loaded what they need: three nodes then load it once
instead of three times, which is most of a cluster's start. Later ones (a node that died and comes again)
are executed from scratch, because by then the parent has sockets.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from barnabas.cli.local.cluster_directory import NodeFiles
from barnabas.config.properties import FAULTS_KEY, FAULTS_VARIABLE, parse_properties
from barnabas.host.process.end_request import EndRequest
from barnabas.host.system.processes import end_with_parent

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
"""The signals for which the parent has handlers."""
_FIRST_DESCRIPTOR = 3
_LAST_DESCRIPTOR = 4096
USUAL, FAULTY = "barnabas.host.main", "barnabas.testing.faulty_node"
"""The programs of a node: the usual one, and the one whose nodes a test can make fail."""


class RunsNode(Protocol):
    """Runs the node of a properties file until it ends, and returns its exit status."""

    def __call__(
        self, path: str, format_as: str | None = None, /, *, end_request: EndRequest | None = None
    ) -> int: ...


def program_of(properties: Path) -> str:
    """The module to run for the node of this file. The usual program says what is wrong with a file that
    cannot be read, and refuses one that asks for faults where `barnabas.testing` did not start the node."""
    if not os.environ.get(FAULTS_VARIABLE):
        return USUAL
    try:
        values = parse_properties(properties.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return USUAL
    return FAULTY if values.get(FAULTS_KEY) else USUAL


def runner_of(properties: Path) -> RunsNode:
    """The same program for this process, loaded."""
    if program_of(properties) == FAULTY:
        from barnabas.testing.faulty_node.program import run_faulty_node

        return run_faulty_node
    from barnabas.host.main import run_node

    return run_node


def fork_node(files: NodeFiles, cluster_id: str, release: Callable[[], None]) -> int:
    """Fork a child that becomes the node; returns its pid. Call it before the process has threads or
    sockets. `release` frees, in the child, what belongs to the parent."""

    def child_main() -> int:
        run = runner_of(files.properties)
        release()
        os.closerange(_FIRST_DESCRIPTOR, _LAST_DESCRIPTOR)
        return run(str(files.properties), cluster_id)

    return _fork(files, child_main)


def execute_node(files: NodeFiles, cluster_id: str) -> int:
    """A child that runs the node from the beginning; its pid."""
    command = [sys.executable, "-m", program_of(files.properties)]
    command += ["--format-as", cluster_id, str(files.properties)]
    return _fork(files, lambda: os.execv(command[0], command))


def _fork(files: NodeFiles, child_main: Callable[[], int]) -> int:
    parent = os.getpid()
    # A signal for the child must not find the parent's handlers in it: they would swallow it, and
    # wake the parent by the descriptor that both have.
    kept = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid:  # not in the child, which is not ready for them yet
            signal.pthread_sigmask(signal.SIG_SETMASK, kept)
    if pid:
        return pid
    status = 1
    try:
        for number in _HANDLED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)
        os.setsid()  # Ctrl-C is for the parent, which tells us
        if end_with_parent(parent):
            _redirect(files)
            status = child_main()
    except SystemExit as end:  # told to end before there was anything to shut down
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last frame of this process
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _redirect(files: NodeFiles) -> None:
    """Nothing to read; everything that is said goes to the node's log."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
