"""``barnabas up`` with options that were read: lays out the directory, checks it and runs the cluster.

It loads no library for command lines. `barnabas.cli.up.up_line` reads the usual lines, the command
`barnabas.cli.commands.up` all of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from barnabas.cli.failure import Failure
from barnabas.cli.local.cluster_directory import ClusterDirectory
from barnabas.cli.local.coordination import coordination_of
from barnabas.cli.up.first_checks import (
    USAGE,
    await_predecessors,
    check,
    check_may_begin,
    check_no_voter_is_lost,
    parse_settings,
)
from barnabas.cli.up.local_cluster import LocalCluster, say
from barnabas.host.programs.removable_directory import mark_removable, remove_if_marked

ZOOKEEPER_MODE_NODES = 3
"""The nodes of a new cluster that ZooKeeper coordinates."""


class UpOptions(NamedTuple):
    """The options of ``barnabas up`` by the names of its parameters."""

    nodes: int | None = None
    data: Path | None = None
    ephemeral: bool = False
    port: int | None = None
    setting: Sequence[str] = ()
    racks: str = ""
    secure: bool = False
    release: str | None = None
    feature: Sequence[str] = ()
    restart: bool = False
    console: bool = False
    replace_lost: bool = False
    coordination: str = ""
    zookeeper: str = ""
    zookeeper_server: str = ""
    zookeeper_servers: int | None = None
    remove_at_end: Path | None = None
    end_with_input: bool = False
    tell_ready: int | None = None
    coordinators: bool = False


def run_up(given: UpOptions) -> int:
    """Run the cluster until it is stopped. Returns the exit status. Raises :class:`Failure`."""
    settings = parse_settings(given.setting)
    levels = _first_levels(given)
    if given.tell_ready is not None:
        _keep_to_itself(given.tell_ready)
    with place_of(given.data, ephemeral=given.ephemeral, remove=given.remove_at_end) as directory:
        await_predecessors(directory)
        chosen = coordination_of(
            directory.path,
            directory.zookeeper,
            has_cluster=bool(directory.nodes()),
            wanted=given.coordination,
            ensemble=given.zookeeper,
            servers=given.zookeeper_servers,
            server=given.zookeeper_server,
        )
        nodes = given.nodes
        if chosen.connect and nodes is None and not directory.nodes():
            nodes = ZOOKEEPER_MODE_NODES
        files = directory.lay_out(
            nodes,
            settings,
            given.port,
            [rack for rack in given.racks.split(",") if rack],
            secure=given.secure or directory.security.is_there,
            zookeeper=chosen.connect,
        )
        for sentence in check(files):
            say(sentence)
        if levels:
            check_may_begin(files, chosen)
        if not given.replace_lost and not chosen.connect:
            check_no_voter_is_lost(files)
        cluster = LocalCluster(
            directory, files, given.restart, chosen, given.console, levels, given.tell_ready
        )
        if given.coordinators:
            cluster.make_coordinators_topics()
        if given.ephemeral or given.end_with_input:
            cluster.end_with_standard_input()
        return cluster.run()


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


def _first_levels(given: UpOptions) -> dict[str, int]:
    """The levels of features that were asked for. Raises :class:`Failure`."""
    if given.release is None and not given.feature:
        return {}
    from barnabas.cli.feature_options import first_levels

    return first_levels(given.release, given.feature)


def _keep_to_itself(descriptor: int) -> None:
    """Let no process that this one starts have the descriptor. Raises :class:`Failure`."""
    try:
        os.set_inheritable(descriptor, False)
    except OSError as error:
        raise Failure(f"--tell-ready {descriptor}: {error.strerror}", USAGE) from error
