"""Runs one node in the foreground, and records its process in the directory of its ``barnabas up``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from barnabas.cli.local.cluster_directory import owner_of
from barnabas.cli.plain_text import say
from barnabas.host.process.end_request import EndRequest


def start_node(file: Path) -> int:
    """Run the node of the properties file `file` until it ends. Returns the exit status."""
    end_request = EndRequest()
    from barnabas.host.main import run_node  # loads the whole node

    directory = owner_of(file)
    try:
        if directory is not None:
            _update_cluster_file(directory.announce, file)
        return run_node(str(file), end_request=end_request)
    finally:
        if directory is not None:
            _update_cluster_file(directory.withdraw, file)


def _update_cluster_file(change: Callable[[Path, int], None], file: Path) -> None:
    """A cluster's directory that cannot be written (its disk is full) keeps no node from its work."""
    try:
        change(file, os.getpid())
    except OSError as error:
        say(f"cluster.json cannot be written: {error.strerror}", err=True)
