"""Reads the metadata records that formatting a directory leaves for the first leader.

They are in ``bootstrap.checkpoint``. The tool of Apache Kafka 4.4 puts them into the quorum's first snapshot
(KIP-1170), beside the voters of a dynamic quorum.

Source: Kafka's ``BootstrapMetadata`` and ``QuorumController.handleLoadBootstrap``.
"""

from __future__ import annotations

from barnabas.config.meta_properties import BOOTSTRAP_CHECKPOINT, DirectoryError
from barnabas.metadata.image.codec import decode_record
from barnabas.ports import Disk
from barnabas.raft.bootstrap_snapshot import first_snapshot_path
from barnabas.record.batch import CorruptBatchError
from barnabas.record.decode import records_in
from barnabas.wire.codec import MalformedError
from barnabas.wire.schema import Message


def read_bootstrap(disk: Disk, directory: str) -> list[Message]:
    """The records that the first leader of the quorum writes; none where there is no file (an older format,
    or a directory from which Apache Kafka removed it). Those of the first snapshot come before those of the
    file. Raises :class:`DirectoryError` where one is damaged."""
    for path in (first_snapshot_path(directory), f"{directory}/{BOOTSTRAP_CHECKPOINT}"):
        found = _records_of(disk, path) if disk.exists(path) else []
        if found:
            return found
    return []


def _records_of(disk: Disk, path: str) -> list[Message]:
    try:
        return [
            decode_record(record.value)
            for record in records_in(disk.read_file(path))
            if record.value is not None
        ]
    except (CorruptBatchError, MalformedError) as error:
        raise DirectoryError(f"{path} is damaged: {error}") from error
