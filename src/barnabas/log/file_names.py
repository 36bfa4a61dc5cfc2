"""Names of the files of a log: per segment ``<base offset, 20 digits>`` and a suffix.

Source: Kafka's ``LogFileUtils``.
"""

from __future__ import annotations

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
REPAIRED = ".repaired"
"""A segment that is being mended; opening a log drops it."""
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
PARTITION_METADATA = "partition.metadata"
"""The topic's id."""
LEADER_EPOCH = "leader-epoch-checkpoint"
TEMPORARY = ".tmp"
"""A file that is not in its place yet."""


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The base offset in a file's name; None where it is no segment file."""
    head = name[:20]
    is_number = head.isascii() and head.isdigit()
    return int(head) if len(name) > 20 and name[20] == "." and is_number else None


def is_file_of_log(name: str) -> bool:
    """Whether a file in a log's folder has a name that a broker gives."""
    plain = name.removesuffix(TEMPORARY)
    return offset_of(name) is not None or plain in (PARTITION_METADATA, LEADER_EPOCH)
