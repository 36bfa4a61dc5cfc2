"""Offset syncs and checkpoints as bytes: those of MirrorMaker 2, so that its clients read the checkpoints.

Strings have a length of two bytes before them, numbers are big-endian. A value of a checkpoint begins with
its version. Source: ``OffsetSync`` and ``Checkpoint`` of KIP-382.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from barnabas.pipeline.errors import PipelineError
from barnabas.types import TopicPartition

CHECKPOINT_VERSION = 0


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Records of `of` before `upstream` are mirrored before `downstream`, all others at or behind it."""

    of: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _text(self.of.topic) + struct.pack(">i", self.of.partition)

    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream, self.downstream)


@dataclass(frozen=True, slots=True)
class GroupCheckpoint:
    """The offset that `group` has committed upstream, and where that is in `of`, a partition of the
    target."""

    group: str
    of: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _text(self.group) + _text(self.of.topic) + struct.pack(">i", self.of.partition)

    def value(self) -> bytes:
        numbers = struct.pack(">hqq", CHECKPOINT_VERSION, self.upstream, self.downstream)
        return numbers + _text("")


def sync_from(key: bytes, value: bytes) -> OffsetSync:
    """Raises `PipelineError`."""
    try:
        topic, at = _read_text(key, 0)
        (partition,) = struct.unpack_from(">i", key, at)
        return OffsetSync(TopicPartition(topic, partition), *struct.unpack(">qq", value))
    except (struct.error, UnicodeDecodeError) as error:
        raise PipelineError(f"a record of the mirror's offsets is none: {error}") from error


def checkpoint_from(key: bytes, value: bytes) -> GroupCheckpoint:
    """Raises `PipelineError`."""
    try:
        group, at = _read_text(key, 0)
        topic, at = _read_text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        version, upstream, downstream = struct.unpack_from(">hqq", value)
    except (struct.error, UnicodeDecodeError) as error:
        raise PipelineError(f"a record of group checkpoints is none: {error}") from error
    if version != CHECKPOINT_VERSION:
        raise PipelineError(f"a group checkpoint has version {version}: this Barnabas reads 0")
    return GroupCheckpoint(group, TopicPartition(topic, partition), upstream, downstream)


def _text(value: str) -> bytes:
    content = value.encode()
    return struct.pack(">h", len(content)) + content


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + size
    if size < 0 or end > len(data):
        raise struct.error("a text ends too early")
    return data[at + 2 : end].decode(), end
