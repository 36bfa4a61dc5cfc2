"""Reads ``bootstrap.checkpoint``: the metadata records that formatting a directory leaves for the first
leader.

Source: Kafka's ``BootstrapDirectory``.
"""

from __future__ import annotations

from barnabas.config.meta_properties import BOOTSTRAP_CHECKPOINT, DirectoryError
from barnabas.metadata.image.codec import decode_record
from barnabas.ports import Disk
from barnabas.record.batch import CorruptBatchError
from barnabas.record.decode import records_in
from barnabas.wire.codec import MalformedError
from barnabas.wire.schema import Message


def read_bootstrap(disk: Disk, directory: str) -> list[Message]:
    """The records that the first leader of the quorum writes; none where there is no file (an older format,
    or a directory from which Apache Kafka removed it). Raises :class:`DirectoryError` where it is
    damaged."""
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return []
    try:
        return [
            decode_record(record.value)
            for record in records_in(disk.read_file(path))
            if record.value is not None
        ]
    except (CorruptBatchError, MalformedError) as error:
        raise DirectoryError(f"{path} is damaged: {error}") from error
