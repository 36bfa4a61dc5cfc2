"""``barnabas node start FILE``: one node in the foreground, as ``kafka-server-start`` would.

This restarts a node that ``barnabas up`` started and that was killed, by hand or by an init system; the
command records it in the cluster's directory.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import typer

from barnabas.cli.local.cluster_directory import owner_of

app = typer.Typer(help="One node of a cluster.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keeps `start` a command of its own while it is the only one."""


@app.command()
def start(file: Path = typer.Argument(help="The node's server.properties.")) -> None:
    """Run one node until SIGTERM, Ctrl-C or the end of its terminal: a controlled shutdown."""
    # On a SIGTERM before there is anything to shut down, just exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from barnabas.host.main import run_node  # loads the whole node

    directory = owner_of(file)
    try:
        if directory is not None:
            _update_cluster_file(directory.announce, file)
        status = run_node(str(file))
    finally:
        if directory is not None:
            _update_cluster_file(directory.withdraw, file)
    raise typer.Exit(status)


def _update_cluster_file(change: Callable[[Path, int], None], file: Path) -> None:
    """A cluster's directory that cannot be written (its disk is full) keeps no node from its work."""
    try:
        change(file, os.getpid())
    except OSError as error:
        print(f"cluster.json cannot be written: {error.strerror}", file=sys.stderr)
