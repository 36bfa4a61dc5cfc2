"""The groups that a broker coordinates: committed offsets, and how far they are behind, in records and in
seconds.

The end of a partition is its high watermark, asked of its leader. The age is that of the first
record that is not committed, by the timestamp in the log; it is read once for each committed
offset. A scrape reads everything, at most once a second; without scrapes nothing is read or kept.

Source of the names and their meaning: kafka_exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.broker.broker import Broker
from barnabas.group.machine import GroupMachine
from barnabas.group.offset_table import OffsetAndMetadata
from barnabas.monitoring.exposition import Exposition, labels_text
from barnabas.monitoring.lag.leaders import Leaders
from barnabas.monitoring.lag.rounds import (
    Asks,
    EndsRound,
    FirstRecordsRound,
    LedOffset,
    LedPartition,
    by_leader,
)
from barnabas.monitoring.scrape import Wait
from barnabas.types import ZERO_UUID

READ_AGAIN_MS = 1_000.0
"""Scrapes within this time show the same figures."""
OFFSETS_MAX = 50_000
"""Committed offsets that one broker shows; further ones are counted in `LEFT_OUT`."""
OFFSETS_PER_STEP = 500
POSITIONS_PER_STEP = 4_000
GROUP = "kafka_consumergroup_{}{{consumergroup,topic,partition}}"
SUM = "kafka_consumergroup_{}_sum{{consumergroup,topic}}"
MEMBERS = "kafka_consumergroup_members{consumergroup}"
LEFT_OUT = "barnabas_consumergroup_offsets_left_out"


class GroupOffset(NamedTuple):
    """One committed offset of a group. `place` is None where the partition has no leader."""

    group: str
    topic: str
    partition: int
    offset: int
    place: LedPartition | None


class Lag(NamedTuple):
    """The lag of a committed offset; a field is None if a leader did not answer."""

    records: int | None
    age_ms: int | None
    """The age of the first record that is not committed; 0 where there is none."""


class GroupSource:
    """The source of one broker."""

    def __init__(self, broker: Broker, asks: Asks | None = None) -> None:
        self._broker = broker
        self._ports = broker.ports
        self._asks = asks or Leaders(broker)
        self._read_ms: float | None = None
        self._members: dict[str, int] = {}
        self._offsets: list[GroupOffset] = []
        self._places: dict[LedPartition, None] = {}
        self._left_out = 0
        self._ends: dict[LedPartition, int] = {}
        self._timestamps: dict[LedOffset, int | None] = {}
        """The first records behind committed offsets; None where only markers follow."""
        self._unread: list[LedOffset] = []
        """Positions that the last round did not reach; they come first."""

    def steps(self, page: Exposition) -> Iterator[Wait | None]:
        now_ms = self._ports.clock.now_ms
        if self._read_ms is None or now_ms() - self._read_ms >= READ_AGAIN_MS:
            yield from self._collect()
            yield from self._ask()
            self._read_ms = now_ms()
        yield from self._write(page)

    # -- reading -----------------------------------------------------------------------------------

    def _collect(self) -> Iterator[None]:
        self._members, self._offsets, self._places, self._left_out = {}, [], {}, 0
        for shard in list(self._broker.groups.shards.values()):
            if shard.active:
                yield from self._collect_shard(shard.machine)

    def _collect_shard(self, machine: GroupMachine) -> Iterator[None]:
        taken = 0
        for group_id, group in list(machine.table.groups.committed_items()):
            self._members[group_id] = len(group.members)
            for (topic, index), committed in machine.offsets.committed_items(group_id):
                self._take(group_id, topic, index, committed)
                taken += 1
                if taken % OFFSETS_PER_STEP == 0:
                    yield
        yield

    def _take(self, group_id: str, topic: str, index: int, committed: OffsetAndMetadata) -> None:
        known = self._broker.image.topics_by_name.get(topic)
        if known is None or committed.topic_id not in (ZERO_UUID, known.id):
            return  # the topic was deleted or replaced
        if len(self._offsets) >= OFFSETS_MAX:
            self._left_out += 1
            return
        place = None
        if known.has(index) and known.leader[index] >= 0:
            leader, epoch = known.leader[index], known.leader_epoch[index]
            place = LedPartition(topic, known.id, index, leader, epoch)
            self._places[place] = None
        self._offsets.append(GroupOffset(group_id, topic, index, committed.offset, place))

    def _ask(self) -> Iterator[Wait | None]:
        self._ends = self._own_ends()
        yield None
        ends = EndsRound(
            self._ports, self._asks, [at for at in self._places if at not in self._ends]
        )
        yield ends.begin
        self._ends |= ends.ends
        behind: dict[LedOffset, None] = {}
        yield from self._find_behind(behind)
        known, self._timestamps = self._timestamps, {}
        wanted = {position: None for position in self._unread if position in behind}
        for at, position in enumerate(behind):
            if position in known:
                self._timestamps[position] = known[position]
            else:
                wanted[position] = None
            if at % POSITIONS_PER_STEP == 0:
                yield None
        first = FirstRecordsRound(self._ports, self._asks, wanted)
        yield first.begin
        self._timestamps |= first.timestamps
        self._unread = [position for position in wanted if position not in first.timestamps]

    def _find_behind(self, behind: dict[LedOffset, None]) -> Iterator[None]:
        """Add the committed offsets behind which there are records."""
        for at, row in enumerate(self._offsets):
            if row.place is not None and row.offset < self._ends.get(row.place, -1):
                behind[LedOffset(row.place, row.offset)] = None
            if at % POSITIONS_PER_STEP == 0:
                yield

    def _own_ends(self) -> dict[LedPartition, int]:
        found = {}
        for place in by_leader(self._places).get(self._broker.node_id, ()):
            partition, _ = self._broker.replicas.find((place.topic, place.partition))
            if partition is not None and partition.leader is not None:
                if partition.log is not None:
                    found[place] = partition.log.high_watermark
        return found

    def lag(self, row: GroupOffset, wall_ms: int) -> Lag:
        place = row.place
        end = None if place is None else self._ends.get(place)
        if place is None or end is None:
            return Lag(None, None)
        if row.offset >= end:
            return Lag(0, 0)
        records, position = end - row.offset, LedOffset(place, row.offset)
        if position not in self._timestamps:
            return Lag(records, None)
        timestamp = self._timestamps[position]
        if timestamp is None:
            return Lag(records, 0)
        return Lag(records, None if timestamp < 0 else max(wall_ms - timestamp, 0))

    # -- writing -----------------------------------------------------------------------------------

    def _write(self, page: Exposition) -> Iterator[None]:
        wall_ms = self._ports.clock.wall_ms()
        adders = {
            name: _adder(page, GROUP.format(name))
            for name in ("current_offset", "lag", "lag_seconds")
        }
        offset_sums: dict[tuple[str, str], int] = {}
        lag_sums: dict[tuple[str, str], int] = {}
        for at, row in enumerate(self._offsets):
            labels = labels_text(
                {"consumergroup": row.group, "topic": row.topic, "partition": str(row.partition)}
            )
            key = (row.group, row.topic)
            adders["current_offset"](labels, row.offset)
            offset_sums[key] = offset_sums.get(key, 0) + row.offset
            lag = self.lag(row, wall_ms)
            if lag.records is not None:
                adders["lag"](labels, lag.records)
                lag_sums[key] = lag_sums.get(key, 0) + lag.records
            if lag.age_ms is not None:
                adders["lag_seconds"](labels, lag.age_ms / 1000)
            if at % OFFSETS_PER_STEP == OFFSETS_PER_STEP - 1:
                yield
        for name, sums in (("current_offset", offset_sums), ("lag", lag_sums)):
            for (group, topic), total in sums.items():
                labels = labels_text({"consumergroup": group, "topic": topic})
                page.add(SUM.format(name), total, labels)
        yield
        for group, members in self._members.items():
            page.add(MEMBERS, members, labels_text({"consumergroup": group}))
        page.add(LEFT_OUT, self._left_out)
        yield


def _adder(page: Exposition, mbean: str) -> Callable[[str, float], None]:
    name, lines = page.series(mbean), page.lines(mbean)
    return lambda labels, value: lines.append(f"{name}{{{labels}}} {value}")
