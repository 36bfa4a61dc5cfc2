"""Log directories between ZooKeeper and KRaft: a controller's first records, a broker's identity."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from barnabas.cli.connection.first_voters import FirstVoters
from barnabas.cli.failure import Failure
from barnabas.config.meta_properties import (
    BOOTSTRAP_CHECKPOINT,
    FILE_NAME,
    DirectoryError,
    classical_text,
    complete_meta_properties,
    read_meta_properties,
)
from barnabas.config.node import NodeConfig
from barnabas.host.disk import HostDisk, sentence_of
from barnabas.metadata.storage_format import bootstrap_checkpoint, directories_of, format_node
from barnabas.types import METADATA_TOPIC
from barnabas.wire.schema import Message


def format_controller(
    config: NodeConfig, cluster_id: str, records: Sequence[Message], *, standalone: bool
) -> list[str]:
    """Let the quorum of this controller begin with `records`; its directories. A broker's directories keep
    what they have. Raises `Failure`."""
    disk, wall_ms = HostDisk(), time.time_ns() // 1_000_000
    first = FirstVoters(config, standalone, "", False)
    metadata = config.metadata_log_dir
    try:
        for directory in directories_of(config):
            complete_meta_properties(disk, directory, os.urandom)
        if disk.exists(f"{metadata}/{METADATA_TOPIC}-0"):
            raise Failure(
                f"{metadata} has a metadata log: node {config.node_id} has run as a controller. Records are"
                " copied into a quorum that has not begun"
            )
        made = format_node(disk, config, cluster_id, os.urandom, wall_ms, credentials=records)
        if metadata not in made:
            checkpoint = bootstrap_checkpoint(config, wall_ms, None, records)
            disk.write_atomic(f"{metadata}/{BOOTSTRAP_CHECKPOINT}", checkpoint)
        known = read_meta_properties(disk, metadata)
        assert known is not None
        directory_id = first.prepare(disk, wall_ms, metadata, known.directory_id)
        if directory_id != known.directory_id:
            disk.write_atomic(
                f"{metadata}/{FILE_NAME}",
                known._replace(directory_id=directory_id).format_text().encode(),
            )
    except OSError as error:
        raise Failure(sentence_of(error)) from error
    except (DirectoryError, ValueError) as error:
        raise Failure(str(error)) from error
    return directories_of(config)


def forget_quorum(config: NodeConfig) -> list[str]:
    """Make a node's directories those of a broker that ZooKeeper coordinates: its metadata log goes, its
    partitions stay. The directories that were changed. Raises `Failure`."""
    disk, changed = HostDisk(), []
    try:
        for directory in directories_of(config):
            known = read_meta_properties(disk, directory)
            if known is None:
                continue
            shutil.rmtree(Path(directory, f"{METADATA_TOPIC}-0"), ignore_errors=True)
            Path(directory, BOOTSTRAP_CHECKPOINT).unlink(missing_ok=True)
            if config.is_broker:
                text = classical_text(known.cluster_id, known.node_id)
                disk.write_atomic(f"{directory}/{FILE_NAME}", text.encode())
            else:
                Path(directory, FILE_NAME).unlink()
            changed.append(directory)
    except OSError as error:
        raise Failure(sentence_of(error)) from error
    except DirectoryError as error:
        raise Failure(str(error)) from error
    return changed
