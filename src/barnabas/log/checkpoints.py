"""Small text files: Kafka's offset and leader epoch checkpoints, and numbers of partitions in their form.

All have a version line (0), a count and one line per entry. They are replaced as a whole.

Source: Kafka's ``OffsetCheckpointFile``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from barnabas.ports import Disk
from barnabas.types import TopicPartition, Uuid, uuid_from_text, uuid_text

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
COORDINATOR_PARTITIONS = "coordinator-partitions"
"""Ours: by how many partitions coordinators' names are hashed."""


class MalformedCheckpoint(ValueError):
    """The file is not what its name says."""


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Offset per partition; empty where the file is missing. Raises :class:`MalformedCheckpoint`."""
    offsets = {}
    for fields in _entries(disk, path, 3):
        offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return offsets


def write_offsets(
    disk: Disk, path: str, offsets: Mapping[TopicPartition, int], *, durable: bool = True
) -> None:
    lines = [f"{tp.topic} {tp.partition} {offset}\n" for tp, offset in sorted(offsets.items())]
    disk.write_atomic(path, f"0\n{len(lines)}\n{''.join(lines)}".encode(), durable=durable)


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """(leader epoch, start offset), ascending."""
    entries = [(int(a), int(b)) for a, b in _entries(disk, path, 2)]
    if any(later[0] <= earlier[0] for earlier, later in pairwise(entries)):
        raise MalformedCheckpoint(f"{path}: the epochs do not ascend")
    return entries


def write_epochs(
    disk: Disk, path: str, entries: list[tuple[int, int]], *, durable: bool = False
) -> None:
    text = f"0\n{len(entries)}\n" + "".join(f"{epoch} {start}\n" for epoch, start in entries)
    disk.write_atomic(path, text.encode(), durable=durable)


def read_counts(disk: Disk, path: str) -> dict[Uuid, int]:
    """A number of partitions per topic id; empty where the file is missing. Raises `MalformedCheckpoint`."""
    counts = {}
    for _, topic_id, count in _entries(disk, path, 3, numbers=1):
        try:
            counts[uuid_from_text(topic_id)] = int(count)
        except ValueError as error:
            raise MalformedCheckpoint(f"{path} is malformed: {error}") from error
    if any(count < 1 for count in counts.values()):
        raise MalformedCheckpoint(f"{path} is malformed: a topic has no partitions")
    return counts


def write_counts(disk: Disk, path: str, counts: Mapping[Uuid, tuple[str, int]]) -> None:
    """`counts` has the topic's name, too, for who reads the file."""
    rows = [f"{name} {uuid_text(topic_id)} {count}\n" for topic_id, (name, count) in counts.items()]
    disk.write_atomic(path, f"0\n{len(rows)}\n{''.join(rows)}".encode())


def _entries(disk: Disk, path: str, width: int, *, numbers: int = 2) -> list[list[str]]:
    """The last `numbers` fields of each row are numbers."""
    if not disk.exists(path):
        return []
    try:
        text = disk.read_file(path).decode()
        if not text.endswith("\n"):  # a loss of power tore it, perhaps within the last number
            raise ValueError("its last line has no end")
        lines = text.splitlines()
        version, count = int(lines[0]), int(lines[1])
        rows = [line.rsplit(" ", width - 1) for line in lines[2:]]
        if version != 0 or len(rows) != count or any(len(row) != width for row in rows):
            raise ValueError("its lines do not fit its head")
        for row in rows:
            [int(number) for number in row[-numbers:]]
    except (ValueError, IndexError) as error:
        raise MalformedCheckpoint(f"{path} is malformed: {error}") from error
    return rows
