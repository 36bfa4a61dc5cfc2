"""Names of the entries of a log directory: which of them are logs, and which are foreign.

Only entries of exactly our form are ours: ``<topic>-<partition>`` for a log, and
``<topic>-<partition>.<32 hexadecimal digits>`` with ``-delete``, ``-stray`` or ``-future`` behind it.
Operators put other things there (copies, notes, ``lost+found``): those are neither opened, renamed nor
removed. Apache Kafka does not start where such a folder exists, and ignores files.

Source: Kafka's ``UnifiedLog.parseTopicPartitionName`` and ``logDirNameWithSuffixCap``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.config.topic_names import check_topic_name
from barnabas.log import checkpoints
from barnabas.log.directories import segment_manifest
from barnabas.log.file_names import TEMPORARY, is_file_of_log
from barnabas.types import METADATA_TOPIC, TopicPartition, is_int32

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
NEXT_SUFFIX = ".next"
"""A checkpoint that is durable but not yet in its place."""
_UNIQUE = re.compile(r"[0-9a-f]{32}")
_SUFFIXES = (DELETE_SUFFIX, STRAY_SUFFIX, FUTURE_SUFFIX)
_FILES = frozenset(
    {
        LOCK_FILE,
        CLEAN_SHUTDOWN_FILE,
        segment_manifest.NAME,
        checkpoints.RECOVERY_POINT,
        checkpoints.HIGH_WATERMARK,
        checkpoints.LOG_START,
        checkpoints.CLEANER,
        checkpoints.COORDINATOR_PARTITIONS,
        "meta.properties",
        "bootstrap.checkpoint",
    }
)
_FOLDERS = frozenset({f"{METADATA_TOPIC}-0", "remote-log-index-cache"})
"""The quorum's log, and what Apache Kafka's tiered storage caches."""


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose directory has this name; None for anything else."""
    topic, dash, number = name.rpartition("-")
    if not dash or not is_int32(number) or topic == METADATA_TOPIC or check_topic_name(topic):
        return None
    partition = TopicPartition(topic, int(number))
    return partition if str(partition) == name else None


def name_of_future(partition: TopicPartition, unique: str) -> str:
    return f"{partition}.{unique}{FUTURE_SUFFIX}"


def future_partition_of(name: str) -> TopicPartition | None:
    """The partition whose future log has this name; None for anything else."""
    return _partition_before(name, FUTURE_SUFFIX)


def deleted_partition_of(name: str) -> TopicPartition | None:
    """The partition whose log was deleted, or moved away, and has this name since."""
    return _partition_before(name, DELETE_SUFFIX)


def is_foreign(name: str) -> bool:
    """Whether no entry of a log directory that a broker made has this name."""
    if name in _FOLDERS or partition_of(name) is not None:
        return False
    if any(_partition_before(name, suffix) is not None for suffix in _SUFFIXES):
        return False
    plain = name.removesuffix(TEMPORARY)
    return plain not in _FILES and plain.removesuffix(NEXT_SUFFIX) not in _FILES


def are_of_a_log(names: Iterable[str]) -> bool:
    """Whether a folder with a partition's name and without a topic id, which has these files, is a log: it is
    empty, or some file in it has the name of a log's. (``photos-2024`` is the name of a partition, too.)"""
    found = list(names)
    return not found or any(map(is_file_of_log, found))


def _partition_before(name: str, suffix: str) -> TopicPartition | None:
    plain, dot, rest = name.rpartition(".")
    if not dot or not rest.endswith(suffix) or not _UNIQUE.fullmatch(rest.removesuffix(suffix)):
        return None
    return partition_of(plain)
