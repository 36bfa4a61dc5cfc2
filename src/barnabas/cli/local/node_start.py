"""Runs one node in the foreground, and records its process in the directory of its ``barnabas up``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from barnabas.cli.local.cluster_directory import owner_of
from barnabas.cli.local.node_processes import runner_of
from barnabas.cli.plain_text import say
from barnabas.host.process.end_request import EndRequest


def start_node(file: Path, *, end_with_input: bool = False) -> int:
    """Run the node of the properties file `file` until a signal ends it, or standard input does where
    `end_with_input`. Returns the exit status."""
    end_request = EndRequest(with_input=end_with_input)
    run = runner_of(file)  # loads the whole node
    directory = owner_of(file)
    try:
        if directory is not None:
            _update_cluster_file(directory.announce, file)
        return run(str(file), end_request=end_request)
    finally:
        if directory is not None:
            _update_cluster_file(directory.withdraw, file)


def start_node_of_environment() -> int:
    """Run the node whose properties are in variables; it formats its directories where they are empty.
    Returns the exit status."""
    end_request = EndRequest()
    from barnabas.cli.local.node_environment import cluster_id, node_properties
    from barnabas.config.properties import format_properties
    from barnabas.host.main import run_node
    from barnabas.host.system.files import unnamed_file

    text = format_properties(node_properties(os.environ))
    with unnamed_file(text.encode()) as path:  # no file system needs to take it, passwords included
        return run_node(path, cluster_id(os.environ), end_request=end_request)


def _update_cluster_file(change: Callable[[Path, int], None], file: Path) -> None:
    """A cluster's directory that cannot be written (its disk is full) keeps no node from its work."""
    try:
        change(file, os.getpid())
    except OSError as error:
        say(f"cluster.json cannot be written: {error.strerror}", err=True)
