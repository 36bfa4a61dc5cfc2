"""Log directories between ZooKeeper and KRaft: a controller's first records, a broker's identity.

Every function may be repeated after a failure of it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from barnabas.cli.connection.first_voters import FirstVoters
from barnabas.cli.failure import Failure
from barnabas.config.meta_properties import (
    BOOTSTRAP_CHECKPOINT,
    FILE_NAME,
    DirectoryError,
    complete_meta_properties,
    read_meta_properties,
    read_owner,
    zookeeper_owner_text,
)
from barnabas.config.node import NodeConfig
from barnabas.host.disk import HostDisk, sentence_of
from barnabas.log.directories.entry_names import LOCK_FILE
from barnabas.metadata.storage_format import bootstrap_checkpoint, directories_of, format_node
from barnabas.types import METADATA_TOPIC
from barnabas.wire.schema import Message

_LOG = f"{METADATA_TOPIC}-0"


@contextmanager
def _failures() -> Iterator[None]:
    """Errors of directories as `Failure`."""
    try:
        yield
    except OSError as error:
        raise Failure(sentence_of(error)) from error
    except (DirectoryError, ValueError) as error:
        raise Failure(str(error)) from error


@contextmanager
def stopped_nodes(configs: Sequence[NodeConfig], *more: str) -> Iterator[None]:
    """Hold the locks of these nodes' directories, and of `more`, so that no node runs on them. A directory
    that is missing has none. Raises `Failure`."""
    disk = HostDisk()
    wanted = [directory for config in configs for directory in directories_of(config)]
    try:
        for directory in dict.fromkeys(os.path.realpath(one) for one in (*wanted, *more)):
            with _failures():
                held = not disk.exists(directory) or disk.try_lock(f"{directory}/{LOCK_FILE}")
            if not held:
                raise Failure(f"a running node has {directory}: stop it, and repeat the command")
        yield
    finally:
        disk.unlock_all()


def check_owners(configs: Sequence[NodeConfig], cluster_id: str) -> None:
    """Refuse directories of other nodes, or of another cluster than the znodes'. Raises `Failure`."""
    disk = HostDisk()
    for config in configs:
        for directory in directories_of(config):
            with _failures():
                owner = read_owner(disk, directory)
            if owner is not None and owner[:2] != (cluster_id, config.node_id):
                raise Failure(
                    f"{directory} belongs to node {owner.node_id} of cluster {owner.cluster_id}, not to"
                    f" node {config.node_id} of cluster {cluster_id}, which the znodes are of"
                )


def check_metadata(directory: str, cluster_id: str) -> None:
    """Refuse a directory whose metadata log is not of the znodes' cluster. Raises `Failure`."""
    if not Path(directory).is_dir():
        raise Failure(f"--metadata {directory} is no directory: name a stopped controller's")
    with _failures():
        owner = read_owner(HostDisk(), directory)
    if owner is None:
        raise Failure(f"{directory} has no {FILE_NAME}: it is no node's directory")
    if owner.cluster_id != cluster_id:
        raise Failure(
            f"{directory} is of cluster {owner.cluster_id}, and the znodes are of {cluster_id}: name a"
            " controller of that cluster"
        )


# -- to KRaft ----------------------------------------------------------------------------------------


def check_not_begun(config: NodeConfig, *, standalone: bool) -> None:
    """Refuse a controller that cannot begin a quorum, or has begun one. Raises `Failure`."""
    FirstVoters(config, standalone, "", False)
    if any(Path(config.metadata_log_dir, _LOG).glob("*.log")):
        raise Failure(
            f"{config.metadata_log_dir} has a metadata log: node {config.node_id} has run as a controller."
            " Records are copied into a quorum that has not begun: `barnabas migrate revert` removes the log"
        )


class NodeDirectory(NamedTuple):
    """A directory of a node that was changed."""

    node_id: int
    directory: str

    def __str__(self) -> str:
        return f"node {self.node_id}: {self.directory}"


def format_controller(
    config: NodeConfig,
    cluster_id: str,
    records: Sequence[Message],
    *,
    standalone: bool,
    features: Mapping[str, int] | None = None,
) -> list[str]:
    """Let the quorum of this controller begin with `records`, and with `features` at other levels than the
    default; its directories. A broker's directories keep what they have. Raises `Failure`."""
    check_not_begun(config, standalone=standalone)
    disk, wall_ms = HostDisk(), time.time_ns() // 1_000_000
    first = FirstVoters(config, standalone, "", False)
    metadata = config.metadata_log_dir
    with _failures():
        for directory in directories_of(config):
            complete_meta_properties(disk, directory, os.urandom)
        _remove(Path(metadata, _LOG))  # what an earlier copy says of who votes
        made = format_node(
            disk,
            config,
            cluster_id,
            os.urandom,
            wall_ms,
            features=features,
            records=records,
        )
        if metadata not in made:
            checkpoint = bootstrap_checkpoint(config, wall_ms, features, records)
            disk.write_atomic(f"{metadata}/{BOOTSTRAP_CHECKPOINT}", checkpoint)
        known = read_meta_properties(disk, metadata)
        assert known is not None
        directory_id = first.prepare(disk, wall_ms, metadata, known.directory_id)
        assert directory_id == known.directory_id, "only --initial-controllers gives another"
    return directories_of(config)


# -- to ZooKeeper ------------------------------------------------------------------------------------


def give_back_to_zookeeper(configs: Sequence[NodeConfig]) -> None:
    """Give the directories the `meta.properties` of brokers that ZooKeeper coordinates. Those of controllers
    get it too: it marks directories whose quorum is to be forgotten. Raises `Failure`."""
    disk = HostDisk()
    for config in configs:
        for directory in directories_of(config):
            with _failures():
                owner = read_owner(disk, directory)
                if owner is not None and not owner.is_in_zookeeper_mode:
                    text = zookeeper_owner_text(owner.cluster_id, owner.node_id)
                    disk.write_atomic(f"{directory}/{FILE_NAME}", text.encode())


def is_half_reverted(config: NodeConfig) -> bool:
    """Whether `give_back_to_zookeeper` was done for this node and `forget_quorum` was not, or not to its end.
    Raises `Failure`."""
    with _failures():
        return any(
            owner.is_in_zookeeper_mode
            and (
                not config.is_broker
                or Path(directory, _LOG).exists()
                or Path(directory, BOOTSTRAP_CHECKPOINT).exists()
            )
            for directory in directories_of(config)
            if (owner := read_owner(HostDisk(), directory)) is not None
        )


def forget_quorum(config: NodeConfig) -> list[str]:
    """Remove the metadata log of a node; its partitions stay. A directory that is a controller's alone is
    not formatted any more. The directories. Raises `Failure`."""
    changed = []
    with _failures():
        for directory in directories_of(config):
            if read_owner(HostDisk(), directory) is None:
                continue
            _remove(Path(directory, _LOG))
            Path(directory, BOOTSTRAP_CHECKPOINT).unlink(missing_ok=True)
            if not config.is_broker:
                Path(directory, FILE_NAME).unlink()
            changed.append(directory)
    return changed


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
