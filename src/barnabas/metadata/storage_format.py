"""Formats log directories: writes ``meta.properties`` and ``bootstrap.checkpoint``.

`bootstrap.checkpoint` holds the feature levels with which a new cluster begins, in the form of a snapshot;
the first leader of the quorum commits them. Formatting writes it before `meta.properties`: a directory with
`meta.properties` is completely formatted. Source: Kafka's ``Formatter``; KIP-631, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barnabas.config.meta_properties import (
    BOOTSTRAP_CHECKPOINT,
    FILE_NAME,
    DirectoryError,
    MetaProperties,
    RandomBytes,
    random_uuid,
    read_meta_properties,
)
from barnabas.config.node import NodeConfig
from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.features import LATEST_METADATA_VERSION, METADATA_VERSION
from barnabas.metadata.image.codec import encode_records
from barnabas.ports import Disk
from barnabas.record.builder import ControlType, build_batch, control_batch
from barnabas.types import Uuid
from barnabas.wire.codec import encode_bytes
from barnabas.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.messages.snapshot_header_record import SnapshotHeaderRecord
from barnabas.wire.schema import Message


def directories_of(config: NodeConfig) -> list[str]:
    """All directories that a node needs formatted."""
    return list(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))


def format_node(
    disk: Disk,
    config: NodeConfig,
    cluster_id: str,
    random_bytes: RandomBytes,
    wall_ms: int,
    *,
    features: Mapping[str, int] | None = None,
    records: Sequence[Message] = (),
    prepare: Callable[[str, Uuid], Uuid] = lambda directory, directory_id: directory_id,
) -> list[str]:
    """Format the directories that are not formatted, and return them. `records` are a new cluster's first
    records besides its feature levels: SCRAM credentials (KIP-900), ACLs. `prepare` writes further files into
    a new directory before it counts as formatted, and returns its directory id. Raises
    :class:`DirectoryError` if a directory is of another node or cluster, ``ValueError`` for unknown features
    and levels, ``OSError``."""
    missing: list[str] = []
    for directory in directories_of(config):
        meta = read_meta_properties(disk, directory)
        if meta is None:
            missing.append(directory)
        elif (meta.cluster_id, meta.node_id) != (cluster_id, config.node_id):
            raise DirectoryError(
                f"{directory} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                f"not to node {config.node_id} of cluster {cluster_id}"
            )
    if missing:
        checkpoint = bootstrap_checkpoint(config, wall_ms, features, records)
        for directory in missing:
            disk.make_dirs(directory)
            disk.write_atomic(f"{directory}/{BOOTSTRAP_CHECKPOINT}", checkpoint)
            directory_id = prepare(directory, random_uuid(random_bytes))
            meta = MetaProperties(cluster_id, config.node_id, directory_id)
            disk.write_atomic(f"{directory}/{FILE_NAME}", meta.format_text().encode())
    return missing


def bootstrap_checkpoint(
    config: NodeConfig,
    wall_ms: int,
    features: Mapping[str, int] | None = None,
    records: Sequence[Message] = (),
) -> bytes:
    """The content of ``bootstrap.checkpoint``. Raises ``ValueError`` for unknown features and levels."""
    levels = dict(features or {})
    version = levels.pop(METADATA_VERSION, LATEST_METADATA_VERSION)
    of_levels = bootstrap_records(
        version, levels, min_insync_replicas=config.controller.min_insync_replicas
    )
    return _checkpoint([*of_levels, *records], version, wall_ms)


def _checkpoint(records: Sequence[Message], metadata_version: int, wall_ms: int) -> bytes:
    """Header, records and footer, a batch each, as Kafka's own writer leaves them (KIP-630)."""
    values = encode_records(records, metadata_version)
    header = encode_bytes(SnapshotHeaderRecord(), 0)
    footer = encode_bytes(SnapshotFooterRecord(), 0)
    return b"".join(
        (
            control_batch(
                [(ControlType.SNAPSHOT_HEADER, header)], timestamp_ms=wall_ms, leader_epoch=0
            ),
            build_batch(
                [(None, value) for value in values],
                timestamp_ms=wall_ms,
                base_offset=1,
                leader_epoch=0,
            ),
            control_batch(
                [(ControlType.SNAPSHOT_FOOTER, footer)],
                timestamp_ms=wall_ms,
                base_offset=1 + len(values),
                leader_epoch=0,
            ),
        )
    )
