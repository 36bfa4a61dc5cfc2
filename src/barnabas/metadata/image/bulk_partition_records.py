"""New partitions by the thousand: read from bytes a slice at a time, put into the image in one go.

A creation of ten thousand partitions is one batch of the log and becomes visible as a whole, and a
snapshot holds hundreds of thousands. `RowReader.stage` turns a few hundred values into what replay
takes: ordinary records, and `Rows` for PartitionRecords of one topic with consecutive indexes and no rare
field. Staging may take many turns of the loop; replaying the result costs next to nothing per
partition.

Replaying `Rows` has the same effect as replaying the records that they were read from. Values of any
other form are decoded by the compiled codec. A property test checks that both ways give the same image.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any

from barnabas.metadata.image.bulk_isr_shrinks import Shrinks
from barnabas.metadata.image.codec import decode_record
from barnabas.metadata.image.topic import Replicas
from barnabas.types import Buffer, Uuid
from barnabas.wire.schema import Message

PARTITION_HEAD = b"\x01\x03\x02"
"""Frame 1, a PartitionRecord of version 2: what a snapshot consists of."""
PARTITION_KEY = PARTITION_HEAD[1]
LIST_MAX = 30
"""Replicas of one partition; longer lists are left to the compiled codec."""
KNOWN_MAX = 8_000
"""Decoded lists in the cache, by their bytes."""
_LISTS_AT = 23
"""The position of the replica list's length: after the head, the index (4 bytes) and the topic id (16)."""
_ints = [Struct(f">{n}i").unpack_from for n in range(LIST_MAX + 1)]
_uuids = [Struct(">" + n * "16s").unpack for n in range(LIST_MAX + 1)]


class Rows:
    """Partitions `first` and following of one topic, column by column."""

    __slots__ = (
        "directories",
        "first",
        "isr",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "replicas",
        "topic_id",
    )

    def __init__(self, topic_id: Uuid, first: int) -> None:
        self.topic_id = topic_id
        self.first = first
        self.leader = array("i")
        self.leader_epoch = array("i")
        self.partition_epoch = array("i")
        self.replicas: list[Replicas] = []
        self.isr: list[Replicas] = []
        self.directories: list[tuple[Uuid, ...]] = []

    def __len__(self) -> int:
        return len(self.replicas)

    def adders(self) -> tuple[Callable[[Any], None], ...]:
        """The functions that append to each column, in the order of `row`."""
        return (
            self.leader.append,
            self.leader_epoch.append,
            self.partition_epoch.append,
            self.replicas.append,
            self.isr.append,
            self.directories.append,
        )

    def row(self, at: int) -> tuple[int, int, int, Replicas, Replicas, tuple[Uuid, ...]]:
        """One partition's columns, in their order here."""
        return (
            self.leader[at],
            self.leader_epoch[at],
            self.partition_epoch[at],
            self.replicas[at],
            self.isr[at],
            self.directories[at],
        )

    def __repr__(self) -> str:
        return f"Rows({len(self)} partitions from {self.first})"


Replayable = Message | Rows | Shrinks
"""The input of replay: a record, or a compact form of many records."""


class RowReader:
    """Reads the values of records.

    Equal lists share one tuple, by a cache of `KNOWN_MAX` lists that is emptied when it is full. This saves
    memory where few lists differ, as with some ten brokers. Where nearly every list is another, a larger
    cache would cost more memory than it saves.
    """

    __slots__ = ("_known_directories", "_placed", "_uuids")

    def __init__(self) -> None:
        self._uuids: dict[bytes, Uuid] = {}
        self._placed: dict[bytes, tuple[Replicas, Replicas]] = {}
        self._known_directories: dict[bytes, tuple[Uuid, ...]] = {}

    def stage(self, values: Iterable[Buffer], into: list[Replayable]) -> None:
        """Append the records of `values` to `into`. Raises MalformedError if one is no metadata record that
        this version knows."""
        placed, known = self._placed, self._known_directories
        topic, following = b"", -1
        rows = into[-1] if into else None
        if isinstance(rows, Rows):
            topic, following = rows.topic_id, rows.first + len(rows)
            add = rows.adders()
        for value in values:
            form = None
            if len(value) > _LISTS_AT and value[1] == PARTITION_KEY:
                form = _form_of(value)
            if form is None:
                into.append(decode_record(value))
                following = -1
                continue
            _, index, topic_id, lists, _, leader, leader_epoch, partition_epoch, _, assigned, _ = (
                form
            )
            if index != following or topic_id != topic:
                rows, topic = Rows(Uuid(topic_id), index), topic_id
                into.append(rows)
                add = rows.adders()
            add[0](leader)
            add[1](leader_epoch)
            add[2](partition_epoch)
            both = placed.get(lists) or self._read_lists(lists)
            add[3](both[0])
            add[4](both[1])
            add[5](known.get(assigned) or self._read_directories(assigned))
            following = index + 1

    def _read_lists(self, raw: bytes) -> tuple[Replicas, Replicas]:
        if len(self._placed) >= KNOWN_MAX:
            self._placed.clear()
        half = len(raw) >> 1
        replicas = isr = _ints[raw[0] - 1](raw, 1)
        if raw[:half] != raw[half:]:
            at = 4 * raw[0] - 3
            isr = _ints[raw[at] - 1](raw, at + 1)
        both = self._placed[raw] = replicas, isr
        return both

    def _read_directories(self, raw: bytes) -> tuple[Uuid, ...]:
        if len(self._known_directories) >= KNOWN_MAX:
            self._known_directories.clear()
        shared = self._uuids
        try:
            assigned = tuple(map(shared.__getitem__, _uuids[len(raw) >> 4](raw)))
        except KeyError:
            for directory in _uuids[len(raw) >> 4](raw):
                shared.setdefault(directory, Uuid(directory))
            return self._read_directories(raw)
        self._known_directories[raw] = assigned
        return assigned


def _form_of(value: Buffer) -> tuple[Any, ...] | None:
    """The parts of an ordinary PartitionRecord: no adding or removing replicas, no tagged fields. None for
    every other value."""
    size, count = len(value), value[_LISTS_AT]
    unpack = _FORMS.get(size << 8 | count) or _new_form(size, count)
    if unpack is None:
        return None
    form = unpack(value)
    head, index, _, lists, rare, _, _, _, assigned, _, tags = form
    members = (len(lists) - 2) // 4 + 2 - count
    if head != PARTITION_HEAD or rare != b"\x01\x01" or assigned != count or tags or index < 0:
        return None
    return form if lists[4 * count - 3] == members else None


_FORMS: dict[int, Callable[[Buffer], tuple[Any, ...]]] = {}


def _new_form(size: int, count: int) -> Callable[[Buffer], tuple[Any, ...]] | None:
    """The unpacker of values of `size` bytes with `count` - 1 replicas: the bytes that remain are the ISR.
    None if no such value is ordinary."""
    lists = size - _LISTS_AT - 16 * count
    members, rest = divmod(lists - 2 - 4 * (count - 1), 4)
    if not 1 < count <= LIST_MAX + 1 or rest or not 0 <= members <= LIST_MAX:
        return None
    form = Struct(f">3si16s{lists}s2siiiB{16 * (count - 1)}sB")
    assert form.size == size
    _FORMS[size << 8 | count] = form.unpack
    return form.unpack
