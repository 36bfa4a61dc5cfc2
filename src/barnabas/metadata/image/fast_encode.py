"""Hand-tuned writers of the records that come by the hundred thousand;
:mod:`bulk_partition_records` reads them.

Each writer returns the whole value (frame and body), or None for a record that it does not cover (a list of
more than thirty brokers, a rare field): the compiled codec writes that. A property test checks that both
write the same bytes.
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
_TAGGED_LISTS: list[Callable[..., bytes]] = [Struct(f">BBB{n}i").pack for n in range(LIST_MAX + 1)]
_CHANGE = Struct(">BBBi16sB").pack
_LEADER = Struct(">BBi").pack
_PARTITION_HEAD = Struct(">BBBi16s").pack
_LISTS: list[Callable[..., bytes]] = [Struct(f">B{n}i").pack for n in range(LIST_MAX + 1)]
_PARTITION_TAIL = Struct(">iii").pack


def reason_tag(text: bytes) -> bytes:
    """The reason (UTF-8) as tagged field 10000: tag, size, text."""
    size = len(text)
    return (_tag_heads.get(size) or _new_tag_head(size)) + text


_tag_heads: dict[int, bytes] = {}
"""Tag and sizes, by the size of the text in bytes."""


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


def _tagged_list(tag: int, values: tuple[int, ...] | list[int]) -> bytes:
    count = len(values)
    return _TAGGED_LISTS[count](tag, 1 + 4 * count, count + 1, *values)


def encode_partition_change(record: PartitionChangeRecord) -> bytes | None:
    """The value in version 2; None if the compiled codec has to write it."""
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
        body = _tagged_list(0, isr)  # type: ignore[arg-type]
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
        body += _tagged_list(6, elr)  # type: ignore[arg-type]
        tags += 1
    if last_known is not None:
        if len(last_known) > LIST_MAX:
            return None
        body += _tagged_list(7, last_known)  # type: ignore[arg-type]
        tags += 1
    if record.reason is not None:
        body += _reason_tag(record.reason)
        tags += 1
    return _CHANGE(1, 5, 2, record.partition_id, record.topic_id, tags) + body


_SHRINK: list[Callable[..., bytes]] = [
    Struct(f">BBBi16sBBBB{n}i").pack for n in range(LIST_MAX + 1)
]
_SHRINK_AND_LEADER: list[Callable[..., bytes]] = [
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
    """A PartitionChangeRecord of version 2 with an ISR and a reason. `leader` is -2 if it stays; `elr` and
    `last_known` are None if they stay. `tag` is the reason as by `reason_tag`. No list may be longer than
    `LIST_MAX`."""
    tags, rare = 2, b""
    if elr is not None:
        tags, rare = 3, _tagged_list(6, elr)
    if last_known is not None:
        tags += 1
        rare += _tagged_list(7, last_known)
    count = len(isr)
    size = 4 * count + 1
    if leader == -2:
        head = _SHRINK[count](1, 5, 2, index, topic_id, tags, 0, size, count + 1, *isr)
    else:
        tags += 1
        head = _SHRINK_AND_LEADER[count](
            1, 5, 2, index, topic_id, tags, 0, size, count + 1, *isr, 1, 4, leader
        )
    return head + rare + tag if rare else head + tag


def encode_partition(record: PartitionRecord) -> bytes | None:
    """The value in version 2; None if the compiled codec has to write it."""
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
