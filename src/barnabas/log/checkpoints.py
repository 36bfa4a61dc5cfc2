"""Kafka's small text files: offset checkpoints and leader epoch checkpoints.

All have a version line (0), a count and one line per entry. They are replaced as a whole.

Source: Kafka's ``OffsetCheckpointFile``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from barnabas.ports import Disk
from barnabas.types import TopicPartition

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"


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


def _entries(disk: Disk, path: str, width: int) -> list[list[str]]:
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
            [int(number) for number in row[-(width - 1) if width == 3 else -2 :]]
    except (ValueError, IndexError) as error:
        raise MalformedCheckpoint(f"{path} is malformed: {error}") from error
    return rows
