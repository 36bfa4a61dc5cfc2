"""Hand-tuned writers of the records that come by the hundred thousand;
:mod:`bulk_partition_records` reads them.

Each writer returns the whole value (frame and body), or None for what is out of the ordinary (lists of
more than thirty brokers, other versions): the compiled codec writes
that. Proven byte-equal to it by a property test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct

from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.wire.codec import write_uvarint

LIST_MAX = 30
"""So that a list's length and its tagged field's size each fit one byte."""
_KEYS: list[Callable[..., bytes]] = [Struct(f">BBB{n}i").pack for n in range(LIST_MAX + 1)]
_CHANGE = Struct(">BBBi16sB").pack
_LEADER = Struct(">BBi").pack
_PARTITION_HEAD = Struct(">BBBi16s").pack
_LISTS: list[Callable[..., bytes]] = [Struct(f">B{n}i").pack for n in range(LIST_MAX + 1)]
_PARTITION_TAIL = Struct(">iii").pack


def reason_tag(text: bytes) -> bytes:
    """The tagged field 10000 with its header."""
    size = len(text)
    return (_tag_heads.get(size) or _new_tag_head(size)) + text


_tag_heads: dict[int, bytes] = {}
"""By the size of the text."""


def _new_tag_head(size: int) -> bytes:
    length = bytearray()
    write_uvarint(size + 1, length)
    head = bytearray(b"\x90\x4e")
    write_uvarint(len(length) + size, head)
    _tag_heads[size] = bytes(head + length)
    return _tag_heads[size]


@lru_cache(maxsize=4096)
def _reason_tag(reason: str) -> bytes:
    return reason_tag(reason.encode())


def _ints(tag: int, values: tuple[int, ...] | list[int]) -> bytes:
    count = len(values)
    return _KEYS[count](tag, 1 + 4 * count, count + 1, *values)


def encode_partition_change(record: PartitionChangeRecord) -> bytes | None:
    """Version 2. None where the compiled codec has to."""
    if record.directories is not None or record.adding_replicas is not None:
        return None
    if record.replicas is not None or record.removing_replicas is not None:
        return None
    body = b""
    tags = 0
    isr, elr, last_known = record.isr, record.eligible_leader_replicas, record.last_known_elr
    if isr is not None:
        if len(isr) > LIST_MAX:
            return None
        body = _ints(0, isr)  # type: ignore[arg-type]
        tags = 1
    if record.leader != -2:
        body += _LEADER(1, 4, record.leader)
        tags += 1
    if record.leader_recovery_state != -1:
        body += bytes((5, 1, record.leader_recovery_state))
        tags += 1
    if elr is not None:
        if len(elr) > LIST_MAX:
            return None
        body += _ints(6, elr)  # type: ignore[arg-type]
        tags += 1
    if last_known is not None:
        if len(last_known) > LIST_MAX:
            return None
        body += _ints(7, last_known)  # type: ignore[arg-type]
        tags += 1
    if record.reason is not None:
        body += _reason_tag(record.reason)
        tags += 1
    return _CHANGE(1, 5, 2, record.partition_id, record.topic_id, tags) + body


_FOLLOWED: list[Callable[..., bytes]] = [
    Struct(f">BBBi16sBBBB{n}i").pack for n in range(LIST_MAX + 1)
]
_LED: list[Callable[..., bytes]] = [
    Struct(f">BBBi16sBBBB{n}iBBi").pack for n in range(LIST_MAX + 1)
]


def encode_shrink(
    topic_id: bytes,
    index: int,
    leader: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...] | None,
    last_known: tuple[int, ...] | None,
    tag: bytes,
) -> bytes:
    """A PartitionChangeRecord of version 2 that sets the ISR, and a leader unless that is -2, and has a
    reason, whose `tag` it is. No list may be longer than `LIST_MAX`."""
    tags, rare = 2, b""
    if elr is not None:
        tags, rare = 3, _ints(6, elr)
    if last_known is not None:
        tags += 1
        rare += _ints(7, last_known)
    count = len(isr)
    size = 4 * count + 1
    if leader == -2:
        head = _FOLLOWED[count](1, 5, 2, index, topic_id, tags, 0, size, count + 1, *isr)
    else:
        tags += 1
        head = _LED[count](1, 5, 2, index, topic_id, tags, 0, size, count + 1, *isr, 1, 4, leader)
    return head + rare + tag if rare else head + tag


def encode_partition(record: PartitionRecord) -> bytes | None:
    """Version 2. None where the compiled codec has to."""
    if record.adding_replicas or record.removing_replicas or record.reason is not None:
        return None
    if record.leader_recovery_state or record.eligible_leader_replicas is not None:
        return None
    replicas, isr, directories = record.replicas, record.isr, record.directories
    if record.last_known_elr is not None or len(replicas) > LIST_MAX or len(isr) > LIST_MAX:
        return None
    if len(directories) > LIST_MAX:
        return None
    return b"".join(
        (
            _PARTITION_HEAD(1, 3, 2, record.partition_id, record.topic_id),
            _LISTS[len(replicas)](len(replicas) + 1, *replicas),
            _LISTS[len(isr)](len(isr) + 1, *isr),
            b"\x01\x01",
            _PARTITION_TAIL(record.leader, record.leader_epoch, record.partition_epoch),
            bytes((len(directories) + 1,)),
            *directories,
            b"\x00",
        )
    )
