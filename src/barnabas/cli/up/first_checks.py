"""The checks of ``barnabas up`` before its nodes start: of the options, of the directory, and of processes
that still use it. They start and change nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.connection.unknown_keys import sentences_on_unknown
from barnabas.cli.failure import Failure
from barnabas.cli.local.cluster_directory import ClusterDirectory, NodeFiles
from barnabas.config.meta_properties import FILE_NAME, DirectoryError, parse_meta_properties
from barnabas.host.disk import HostDisk
from barnabas.host.system.processes import has_ended

if TYPE_CHECKING:
    from barnabas.cli.local.coordination import Coordination

USAGE = 2
"""The exit status of a wrong command line."""
QUORUM_STATE = "__cluster_metadata-0/quorum-state"
PREDECESSOR_S = 6.0
"""How long the nodes of an ``up`` that was killed may take to end."""


def parse_settings(items: Sequence[str]) -> dict[str, str]:
    """``key=value`` items. Raises :class:`Failure`."""
    settings = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise Failure(f"--set takes KEY=VALUE, not {item!r}", 2)
        settings[key.strip()] = value.strip()
    return settings


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


def check(nodes: Sequence[NodeFiles]) -> list[str]:
    """Refuse values that no node would start with; return sentences on the keys that no node reads. Raises
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
    return list(unknown)
