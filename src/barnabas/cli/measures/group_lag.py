"""How far groups are behind: in offsets, and in seconds.

The seconds are the age of the first record that a group has not committed, read from the log. They compare
the clock of the record's producer, or of its broker, with the clock here. A partition without a leader has
no end, and a record that the user may not read has no age.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from barnabas.cli.connection.many_brokers import EXPECTED, gathered
from barnabas.client.consumers.assignors import PROTOCOL_TYPE, read_assignment
from barnabas.client.consumers.fetch_requests import FetchedRun, FetchSettings, fetch
from barnabas.client.group_offsets import share_starts
from barnabas.client.groups import CLASSIC, SHARE, DescribedMember, GroupDescription
from barnabas.client.offsets import EARLIEST, committed_offsets
from barnabas.host.client import Connected
from barnabas.monitoring.lag.first_record import first_record
from barnabas.record.batch import CorruptBatchError
from barnabas.types import TopicPartition
from barnabas.wire.codec import MalformedError
from barnabas.wire.errors import ErrorCode

READ_BYTES = 16 * 1024
FETCH_MS = 10_000.0
ROUNDS_MAX = 16
"""Fetches of one partition: several groups may be at several places, and markers may fill what one brings."""


class ReadPosition(NamedTuple):
    """The offset that a group reads next in a partition."""

    partition: TopicPartition
    offset: int


@dataclass(slots=True)
class PartitionProgress:
    """One partition of a group. `committed` is the start offset of a share group."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    seconds: float | None
    member: str | None
    client: str | None

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class GroupProgress:
    """A group with its partitions; `error` says why they are not known."""

    described: GroupDescription
    rows: list[PartitionProgress] = field(default_factory=list)
    error: Exception | None = None

    @property
    def lag(self) -> int:
        return sum(row.lag or 0 for row in self.rows)

    @property
    def seconds(self) -> float | None:
        return max((row.seconds for row in self.rows if row.seconds is not None), default=None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "group": self.described.group_id,
            "type": self.described.type,
            "state": self.described.state,
            "members": len(self.described.members),
            "lag": self.lag,
            "seconds": self.seconds,
            "problem": "" if self.error is None else str(self.error),
            "partitions": [row.as_dict() for row in self.rows],
        }


def described_groups(connected: Connected, names: Sequence[str]) -> dict[str, Any]:
    """Ask for all groups at once. The description of one that cannot be had is its error."""
    return gathered(connected, {name: connected.admin.describe_group(name) for name in names})


def progress_of(
    connected: Connected, groups: Sequence[GroupDescription], *, ages: bool = True
) -> list[GroupProgress]:
    """How far these groups are. Without `ages` no record is read and the seconds are not known."""
    client = connected.client
    asked = {
        group.group_id: share_starts(client, group.group_id)
        if group.type == SHARE
        else committed_offsets(client, group.group_id)
        for group in groups
    }
    answers = gathered(connected, asked)
    found = []
    for group in groups:
        answer = answers[group.group_id]
        if isinstance(answer, Exception):
            found.append(GroupProgress(group, error=answer))
        else:
            found.append(GroupProgress(group, _rows(group, answer)))
    rows = [row for group in found for row in group.rows]
    _add_ends(connected, rows)
    if ages:
        add_ages(connected, rows)
    return found


def progress(
    connected: Connected, described: GroupDescription, *, ages: bool = False
) -> list[dict[str, Any]]:
    """The rows of one group. Raises ``KafkaError``, ``ChannelError``."""
    (found,) = progress_of(connected, [described], ages=ages)
    if found.error is not None:
        raise found.error
    return [row.as_dict() for row in found.rows]


def _rows(
    group: GroupDescription, offsets: Mapping[TopicPartition, Any]
) -> list[PartitionProgress]:
    """A row per partition that is committed or assigned; it has no end yet."""
    holders: dict[TopicPartition, DescribedMember] = {}
    for member in group.members:
        for tp in assigned_to(group, member):
            holders[tp] = member
    rows = []
    for tp in sorted({*offsets, *holders}):
        at, holder = offsets.get(tp), holders.get(tp)
        rows.append(
            PartitionProgress(
                tp.topic,
                tp.partition,
                None if at is None else at.offset,
                None,
                getattr(at, "lag", None),
                None,
                None if holder is None else holder.member_id,
                None if holder is None else holder.client_id,
            )
        )
    return rows


def assigned_to(group: GroupDescription, member: DescribedMember) -> list[TopicPartition]:
    """The partitions of a member; nothing where its assignment is in words of its own."""
    if group.type != CLASSIC:
        return member.assigned
    if group.protocol_type not in (PROTOCOL_TYPE, ""):
        return []
    try:
        return read_assignment(member.assignment)
    except MalformedError:
        return []


def _add_ends(connected: Connected, rows: Sequence[PartitionProgress]) -> None:
    """The end offsets of partitions with a leader; a request for the others would wait for its time-out."""
    if not rows:
        return
    cluster = connected.client.cluster
    partitions = dict.fromkeys(TopicPartition(row.topic, row.partition) for row in rows)
    connected.call(cluster.refresh(dict.fromkeys(tp.topic for tp in partitions)))
    led = [tp for tp in partitions if cluster.leader(tp) is not None]
    ends = {tp: found.offset for tp, found in connected.offsets(led).items()} if led else {}
    for row in rows:
        row.end = ends.get(TopicPartition(row.topic, row.partition))
        if row.lag is None and row.committed is not None and row.end is not None:
            row.lag = max(row.end - row.committed, 0)


def add_ages(connected: Connected, rows: Sequence[PartitionProgress]) -> None:
    """The seconds of these rows, whose lags are known: the first record of each that is behind is read."""
    places: dict[ReadPosition, int] = {}
    for row in rows:
        if row.lag == 0:
            row.seconds = 0.0
        elif row.lag and row.committed is not None and row.end is not None:
            places[ReadPosition(TopicPartition(row.topic, row.partition), row.committed)] = row.end
    stamps = first_stamps(connected, places)
    now_ms = time.time() * 1000
    for row in rows:
        if row.committed is None or row.seconds is not None:
            continue
        place = ReadPosition(TopicPartition(row.topic, row.partition), row.committed)
        if place in stamps:
            stamp = stamps[place]
            row.seconds = 0.0 if stamp is None else round(max(now_ms - stamp, 0.0) / 1000, 3)


def first_stamps(
    connected: Connected, places: Mapping[ReadPosition, int]
) -> dict[ReadPosition, int | None]:
    """The timestamp of the first record at or after each place; None where only markers of transactions are
    before the end. `places` names the ends. A place that cannot be read is left out."""
    stamps: dict[ReadPosition, int | None] = {}
    at = {place: place.offset for place in places}
    for _ in range(ROUNDS_MAX):
        asked: dict[TopicPartition, ReadPosition] = {}
        for place in at:
            asked.setdefault(place.partition, place)
        if not asked:
            break
        positions = {tp: at[place] for tp, place in asked.items()}
        settings = FetchSettings(wait_ms_max=0, bytes_min=0, partition_bytes_max=READ_BYTES)
        fetching = fetch(connected.client, positions, settings, timeout_ms=FETCH_MS)
        try:
            runs = connected.call(fetching)
        except EXPECTED:
            break
        for tp, place in asked.items():
            run = runs.get(tp)
            next_offset = None if run is None else _read(connected, place, run, places, stamps)
            if next_offset is None:
                del at[place]
            else:
                at[place] = next_offset
    return stamps


def _read(
    connected: Connected,
    place: ReadPosition,
    run: FetchedRun,
    ends: Mapping[ReadPosition, int],
    stamps: dict[ReadPosition, int | None],
) -> int | None:
    """Take the timestamp of a place. Returns where to read on; None where nothing is to be read."""
    if run.error is not None and run.error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        start = connected.offsets([place.partition], EARLIEST)[place.partition].offset
        return start if start > run.offset else None  # retention deleted what is behind the start
    if run.error is not None:
        return None
    try:
        first = first_record(run.data, run.offset)
    except CorruptBatchError:
        return None
    if first.timestamp_ms is not None:
        if first.timestamp_ms >= 0:
            stamps[place] = first.timestamp_ms
        return None
    if first.next_offset >= ends[place]:
        stamps[place] = None
        return None
    return first.next_offset
