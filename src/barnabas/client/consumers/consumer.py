"""A consumer: fetches ahead from every leader, hands out records in order. Sans-IO.

Per leader one fetch is in flight; what came is kept as bytes and decoded only when it is taken,
so a consumer that is not asked holds at most `buffered_bytes_max` (and of each partition the one batch
unpacked that was taken in part) and fetches no more. Positions move when records are taken. With a
group, partitions come and go by :mod:`barnabas.client.consumers.group_member`; records of a partition that
was given up are dropped, never handed out.

`read_committed` leaves out what a fetch reports as aborted (KIP-98). Source: Kafka protocol guide.
Kafka's ``KafkaConsumer``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from barnabas.client import offsets
from barnabas.client.client import Client
from barnabas.client.consumers.classic_protocol_member import ClassicProtocolMember
from barnabas.client.consumers.consumer_positions import (
    ConsumerPosition,
    check_positions,
    epoch_before,
    passes,
)
from barnabas.client.consumers.consumer_protocol_member import ConsumerProtocolMember
from barnabas.client.consumers.fetch_requests import (
    FetchedRun,
    FetchPosition,
    FetchSettings,
    ask_leader,
)
from barnabas.client.consumers.group_member import (
    CONSUMER,
    GroupMember,
    GroupMemberSettings,
    Subscription,
)
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import EARLIEST, LATEST, CommittedOffset, GroupIdentity
from barnabas.client.records import ConsumerRecord
from barnabas.record.batch import CorruptBatchError
from barnabas.types import TopicPartition, new_tuple
from barnabas.wire.errors import ErrorCode, KafkaError

FETCH_RETRY_MS = 50.0
POSITION_TIMEOUT_MS = 5_000.0
"""How long one leader is asked where its partitions begin, before others may be theirs, and a coordinator
for a group's offsets, before topics may be gone."""
RESET_POLICIES = ("earliest", "latest", "none")


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Kafka's consumer configuration where it has it."""

    auto_offset_reset: str = "latest"
    """earliest, latest or none: where to begin without a committed offset."""
    fetch: FetchSettings = field(default_factory=FetchSettings)
    buffered_bytes_max: int = 64 * 1024 * 1024
    group: GroupMemberSettings = field(default_factory=GroupMemberSettings)

    def __post_init__(self) -> None:
        if self.auto_offset_reset not in RESET_POLICIES:
            raise ValueError(f"there is no auto_offset_reset {self.auto_offset_reset!r}")


class Consumer:
    """Reads partitions: those of `assign`, or those its group gives it after `subscribe`."""

    def __init__(
        self,
        client: Client,
        group_id: str | None = None,
        settings: ConsumerSettings = ConsumerSettings(),
        *,
        on_data: Callable[[], None] = lambda: None,
        on_assigned: Callable[[list[TopicPartition]], None] = lambda partitions: None,
        on_revoked: Callable[[list[TopicPartition]], None] = lambda partitions: None,
    ) -> None:
        """`on_data`: something can be taken. `on_revoked` comes before the partitions are
        another's: the last chance to commit. With ``group.protocol=consumer`` both name what changes."""
        self.settings = settings
        self.buffered_bytes = 0
        self.failure: KafkaError | None = None
        """Why no more will come (no offset to begin at, not authorized, fenced from its group, ...)."""
        self._client = client
        self._group_id = group_id
        self._on_data = on_data
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._member: GroupMember | None = None
        self._reading: dict[TopicPartition, ConsumerPosition] = {}
        self._asked: set[int] = set()
        self._turn = 0
        self._pump_due = self._closed = False
        free = (f"fetch-{number}" for number in itertools.count())
        self._purpose = next(name for name in free if name not in client.fetching)
        client.fetching.add(self._purpose)

    def __repr__(self) -> str:
        return f"Consumer(group={self._group_id} partitions={len(self._reading)})"

    # -- what to read ----------------------------------------------------------------------------

    def assign(self, partitions: Mapping[TopicPartition, int] | Iterable[TopicPartition]) -> None:
        """Read these, from the given offsets (negative: `EARLIEST`, `LATEST`) or where the group
        or `auto_offset_reset` says."""
        starts = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions)
        self._take_over(list(starts))
        for tp, offset in starts.items():
            if offset is not None:
                self.seek(tp, offset)

    def subscribe(self, to: Subscription) -> None:
        """Join the group for these topics, or for those that a `TopicPattern` matches; for these instead,
        where it is a member already."""
        if self._group_id is None:
            raise ValueError("a consumer without a group cannot subscribe")
        if self._member is not None and self._member.failure is None:
            self._member.subscribe(to)
            return
        if self.settings.group.protocol == CONSUMER:
            self._member = ConsumerProtocolMember(
                self._client, self._group_id, to, self.settings.group,
                on_assigned=partial(self._assigned, beside=True), on_revoked=self._revoked,
                on_failed=self._fail,
                purpose=f"group of {self._purpose}",
            )  # fmt: skip
        else:
            self._member = ClassicProtocolMember(
                self._client, self._group_id, to, self.settings.group,
                on_assigned=self._assigned, on_revoked=self._revoked, on_failed=self._fail,
                purpose=f"group of {self._purpose}",
            )  # fmt: skip
        self._member.start()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset` and drop what was fetched. Negative as in `assign`."""
        reading = self._reading[partition]
        self.buffered_bytes -= sum(len(run.data) for run in reading.runs)
        if offset < 0:
            reading.seek_end(offset)
            self._client.tasks.start(self._find_position({partition: offset}))
        else:
            reading.seek(offset)
        self._schedule()

    def pause(self, partition: TopicPartition, paused: bool = True) -> None:
        self._reading[partition].paused = paused
        self._schedule()

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._reading)

    @property
    def identity(self) -> GroupIdentity | None:
        """Who this is in its group; generation -1 outside of any."""
        if self._member is not None:
            return self._member.identity
        return None if self._group_id is None else GroupIdentity(self._group_id)

    @property
    def is_stable(self) -> bool:
        """Whether its group has given it its partitions."""
        return self._member is None or self._member.is_stable

    def position(self, partition: TopicPartition) -> int | None:
        """The next offset that will be handed out; None until it is known."""
        reading = self._reading.get(partition)
        return None if reading is None else reading.position

    # -- taking ----------------------------------------------------------------------------------

    def poll(self, max_records: int = 500) -> list[ConsumerRecord]:
        """The records that are there now, up to `max_records`, in order per partition; perhaps none."""
        taken: list[ConsumerRecord] = []
        partitions = list(self._reading)
        count = len(partitions)
        for step in range(count):
            tp = partitions[(self._turn + step) % count]
            reading = self._reading[tp]
            while reading.runs and not reading.paused and len(taken) < max_records:
                self._take_from(tp, reading, taken, max_records)
        self._turn += 1
        self._schedule()
        return taken

    def _take_from(
        self, tp: TopicPartition, reading: ConsumerPosition, taken: list[ConsumerRecord], limit: int
    ) -> None:
        run = reading.runs[0]
        assert reading.position is not None
        done = True
        room = limit - len(taken)
        ahead, rest = reading.left or ((), run.records(reading.position))
        reading.left = None
        try:
            for record in itertools.chain(ahead, rest):
                if room <= 0:
                    done, reading.left = False, ((record,), rest)
                    break
                room -= 1
                # A partition and a record have the fields of a consumer's record, in its order.
                taken.append(new_tuple(ConsumerRecord, tp + record))
                reading.position = record[0] + 1
        except CorruptBatchError as error:
            # Damaged on its way or on the broker's disk, which mends it: it is asked for again.
            self.buffered_bytes -= sum(len(run.data) for run in reading.runs)
            reading.seek(reading.position)
            self._put_off([reading], KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)))
            return
        first, last = run.epochs
        reading.epoch = last if done or first == last else -1
        if done:
            for offset, why in run.faults.items():
                self._client.ports.log(
                    "warning",
                    "consumer.records_passed_over",
                    partition=str(tp),
                    batch=offset,
                    why=why,
                )
            reading.position = run.next_offset
            reading.runs.popleft()
            self.buffered_bytes -= len(run.data)

    # -- committing ------------------------------------------------------------------------------

    async def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit `positions`, or every partition's current position. Raises `KafkaError`."""
        who = self.identity
        if who is None:
            raise ValueError("a consumer without a group has nothing to commit")
        if positions is None:
            positions = {
                tp: reading.position
                for tp, reading in self._reading.items()
                if reading.position is not None
            }
        if positions:
            wanted = {
                tp: CommittedOffset(offset, epoch_before(self._reading.get(tp), offset))
                for tp, offset in positions.items()
            }
            await offsets.commit(self._client, who, wanted)

    async def close(self) -> None:
        """Leave the group and fetch no more. Commits nothing."""
        self._closed = True
        try:
            if self._member is not None:
                await self._member.leave()
        finally:
            self._reading.clear()
            self._client.fetching.discard(self._purpose)

    # -- assignment ------------------------------------------------------------------------------

    def _assigned(self, partitions: list[TopicPartition], beside: bool = False) -> None:
        """`beside` those that it has, where the coordinator assigns."""
        if beside:
            self._reading |= {tp: ConsumerPosition() for tp in partitions}
            self._schedule()
        else:
            self._take_over(partitions)
        self._on_assigned(partitions)

    def _revoked(self, partitions: list[TopicPartition] | None = None) -> None:
        """These are another's soon; all where None."""
        given_up = list(self._reading) if partitions is None else partitions
        try:
            self._on_revoked(given_up)
        finally:
            for tp in given_up:
                reading = self._reading.pop(tp, None)
                if reading is not None:
                    self.buffered_bytes -= sum(len(run.data) for run in reading.runs)

    def _take_over(self, partitions: list[TopicPartition]) -> None:
        self._reading = {tp: ConsumerPosition() for tp in partitions}
        self.buffered_bytes = 0
        self._schedule()

    async def _find_position(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Ask the leaders where these begin (`EARLIEST`, `LATEST`)."""
        mine = {tp: self._reading[tp] for tp in wanted if tp in self._reading}
        for reading in mine.values():
            reading.busy = True
        try:
            found = await offsets.list_offsets(
                self._client,
                wanted,
                read_committed=self.settings.fetch.read_committed,
                timeout_ms=POSITION_TIMEOUT_MS,
            )
        except (KafkaError, ChannelError) as error:
            self._on_lookup_failed(list(mine.values()), error)
        else:
            for tp, reading in mine.items():
                if reading.start == wanted[tp]:  # else the application called `seek` meanwhile
                    reading.seek(found[tp].offset)
        finally:
            for reading in mine.values():
                reading.busy = False
            self._schedule()

    async def _find_positions(self, partitions: list[TopicPartition]) -> None:
        """Find where to begin: what was sought, else the committed offset, else by `auto_offset_reset`."""
        mine = {tp: self._reading[tp] for tp in partitions}
        partitions = [tp for tp, reading in mine.items() if reading.start is None]
        for reading in mine.values():
            reading.busy = True
        committed: dict[TopicPartition, CommittedOffset] = {}
        try:
            await self._client.cluster.ensure({tp.topic: None for tp in mine})
            if self._group_id is not None and partitions:
                gone = _missing(self._client, partitions)
                partitions = [tp for tp in partitions if tp not in gone]
                apart = [tp for tp in gone if self._reading.get(tp) is mine.pop(tp)]
                if apart:
                    self._client.tasks.start(self._find_positions(apart))
                committed = await offsets.committed_offsets(
                    self._client, self._group_id, partitions, timeout_ms=POSITION_TIMEOUT_MS
                )
        except (KafkaError, ChannelError) as error:
            self._on_lookup_failed(list(mine.values()), error)
            return
        finally:
            for reading in mine.values():
                reading.busy = False
            self._schedule()
        missing: dict[int | None, dict[TopicPartition, int]] = {}
        for tp, reading in mine.items():
            if reading.position is not None or self._reading.get(tp) is not reading:
                continue
            if reading.start is None and tp in committed:
                reading.seek(committed[tp].offset, committed[tp].leader_epoch)
                continue
            if reading.start is None:
                reading.start = self._reset_to(tp)
            missing.setdefault(self._client.cluster.leader(tp), {})[tp] = reading.start
        if self.failure is None:
            for some in missing.values():  # a partition without a leader must not hold up others
                self._client.tasks.start(self._find_position(some))

    def _reset_to(self, tp: TopicPartition) -> int:
        policy = self.settings.auto_offset_reset
        if policy == "none":
            self._fail(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{tp} has no offset to begin"))
        return EARLIEST if policy == "earliest" else LATEST

    def _begin_again(self, tp: TopicPartition, reading: ConsumerPosition) -> None:
        """The log does not have its position: `auto_offset_reset` says another one."""
        start = self._reset_to(tp)
        reading.seek_end(start)
        self._client.tasks.start(self._find_position({tp: start}))

    def _fail(self, error: KafkaError) -> None:
        self.failure = error
        self._notify_data()

    def _notify_data(self) -> None:
        try:
            self._on_data()
        except Exception as fault:  # noqa: BLE001 - the program's around it: what else there is comes all the same
            self._client.tasks.on_lost(fault)

    def _on_lookup_failed(
        self, readings: list[ConsumerPosition], error: KafkaError | ChannelError
    ) -> None:
        if isinstance(error, KafkaError) and not passes(error):
            self._fail(error)
        else:
            self._put_off(readings, error)

    def _put_off(self, readings: list[ConsumerPosition], error: Exception) -> None:
        retry_at_ms = self._client.now_ms() + FETCH_RETRY_MS
        for reading in readings:
            reading.retry_at_ms = retry_at_ms
        self._client.ports.log("debug", "consumer.put_off", error=str(error))
        self._client.ports.wakeups.call_at(retry_at_ms, self._schedule)

    # -- fetching --------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            self._client.ports.wakeups.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_due = False
        if self._closed or self.failure is not None:
            return
        now_ms, cluster = self._client.now_ms(), self._client.cluster
        has_room = self.buffered_bytes < self.settings.buffered_bytes_max
        lost: list[TopicPartition] = []
        leaderless: list[str] = []
        by_leader: dict[int, list[FetchPosition]] = {}
        for tp, reading in self._reading.items():
            if reading.busy or reading.paused or reading.retry_at_ms > now_ms:
                continue
            if reading.position is None:
                lost.append(tp)
            elif has_room and not reading.runs:
                leader = reading.replica(cluster, tp, now_ms)
                if leader is None:
                    leaderless.append(tp.topic)
                    reading.retry_at_ms = now_ms + FETCH_RETRY_MS
                elif leader not in self._asked:
                    position = new_tuple(FetchPosition, (tp, reading.fetch_from))
                    by_leader.setdefault(leader, []).append(position)
        if lost:
            self._client.tasks.start(self._find_positions(lost))
        if leaderless:
            self._client.tasks.start(self._refresh(leaderless))
        for leader in sorted(by_leader):
            self._asked.add(leader)
            readings = {p.partition: self._reading[p.partition] for p in by_leader[leader]}
            self._client.tasks.start(self._fetch(leader, by_leader[leader], readings))

    async def _refresh(self, topics: list[str]) -> None:
        try:
            await self._client.cluster.refresh(topics)
        except ChannelError as error:
            self._client.ports.log("debug", "consumer.no_metadata", error=str(error))
        await self._client.tasks.sleep(FETCH_RETRY_MS)
        self._schedule()

    async def _fetch(
        self,
        leader: int,
        positions: list[FetchPosition],
        readings: dict[TopicPartition, ConsumerPosition],
    ) -> None:
        for reading in readings.values():
            reading.busy = True
        stale: dict[str, None] = {}
        failure: Exception | None = None
        runs: list[FetchedRun] = []
        gone: list[TopicPartition] = []
        refused: dict[TopicPartition, KafkaError] = {}
        client = self._client
        doubtful = {tp: r for tp, r in readings.items() if r.has_doubts(client.cluster, tp)}
        try:
            if doubtful:
                moves = self.settings.auto_offset_reset != "none"
                gone, refused = await check_positions(client, leader, doubtful, moves=moves)
            else:
                runs = await ask_leader(
                    client, leader, positions, self.settings.fetch, self._purpose
                )
        except (ChannelError, KafkaError) as error:
            failure = error
        self._asked.discard(leader)
        for reading in readings.values():
            reading.busy = False
        if failure is not None:
            for reading in readings.values():
                reading.maybe_leave_preferred()
            stale.update({p.partition.topic: None for p in positions})
            self._put_off(list(readings.values()), failure)
        for tp in gone:
            if self._reading.get(tp) is readings[tp]:
                self._begin_again(tp, readings[tp])
        for tp, why in refused.items():
            if self._reading.get(tp) is readings[tp]:
                stale[tp.topic] = None
                self._on_lookup_failed([readings[tp]], why)
        for run in runs:
            reading = readings[run.partition]
            if self._reading.get(run.partition) is not reading:
                continue  # given up while it was on its way
            if run.error is not None:
                self._on_refusal(reading, run, stale)
            elif run.preferred >= 0:
                reading.prefer(run.preferred, client.now_ms() + client.cluster.max_age_ms)
            elif reading.keep(run):
                self.buffered_bytes += len(run.data)
                self._notify_data()
        self._schedule()
        if stale:
            await self._refresh(list(stale))

    def _on_refusal(
        self, reading: ConsumerPosition, run: FetchedRun, stale: dict[str, None]
    ) -> None:
        assert run.error is not None
        if reading.maybe_leave_preferred():
            self._schedule()  # a follower may not know yet what its leader does
        elif run.error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if run.offset == reading.fetch_from:
                self._begin_again(run.partition, reading)
        elif passes(run.error):
            if not run.moved:
                stale[run.partition.topic] = None
                self._put_off([reading], run.error)
        else:
            self._fail(run.error)


def _missing(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, None]:
    """The partitions whose topic is missing while other topics exist: a coordinator answers for none of the
    partitions while the request names a missing one."""
    topics = client.cluster.topics
    missing = dict.fromkeys(
        tp for tp in partitions if tp.topic not in topics or topics[tp.topic].error
    )
    return missing if any(tp not in missing for tp in partitions) else {}
