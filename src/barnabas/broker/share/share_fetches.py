"""Serves ShareFetch and ShareAcknowledge: members acquire records of their partitions and
acknowledge them.

A fetch acquires what its partitions have. If that is too little, it waits until one of them moves
(an append, a release, a lock that ends) or its time is over. Fetches that wait for one partition
are served in the order of their arrival, and a member's partitions in another order each time, so
that no member and no partition starves. Reads never block: a background job first reads bytes that
are not in memory.

Source: ``DelayedShareFetch``, ``SharePartitionManager`` and ``KafkaApis`` of Apache Kafka 4.3; KIP-932.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from barnabas.broker.deadlines import Deadlines
from barnabas.broker.share.led_partitions import LedPartitions, LedSharePartition
from barnabas.broker.share.read_batches import ReadBatch, aborted_ranges, batches_of, slice_for
from barnabas.broker.share.share_partition import (
    HELD_MAX,
    RECORD_LOCKS_MAX,
    Acknowledgement,
    Acquired,
    Wanted,
)
from barnabas.broker.share.share_sessions import Member, Place, ShareSession, ShareSessions
from barnabas.log.errors import CorruptLogError, OffsetOutOfRange
from barnabas.ports import Ports, raise_soon
from barnabas.share.key import SharePartitionKey
from barnabas.types import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError

COLD_READ_QUEUES = 2
"""Queues of cold reads per log directory."""
PASSES_MAX = 8
"""Passes over the partitions in one turn. Another pass follows if all records that were read were
archived."""


class FetchTerms(NamedTuple):
    """The terms of one fetch."""

    member: Member
    wanted: Wanted
    bytes_max: int
    bytes_min: int
    committed: bool
    """Deliver only records of transactions that were committed."""


class Delivered(NamedTuple):
    """The records of one partition that a fetch delivers."""

    records: Buffer
    acquired: Sequence[Acquired]
    error: KafkaError | None = None


class _Read(NamedTuple):
    led: LedSharePartition
    offset: int
    records: Buffer
    batches: list[ReadBatch]
    aborted: list[tuple[int, int]]


Results = dict[Place, Delivered]


class ShareFetch:
    """One fetch under way."""

    __slots__ = (
        "asked",
        "bucket",
        "busy",
        "cold_reads",
        "is_done",
        "led",
        "on_done",
        "results",
        "share_fetches",
        "woken",
    )

    def __init__(
        self,
        share_fetches: ShareFetches,
        asked: FetchTerms,
        on_done: Callable[[Results], None],
        is_done: Callable[[], bool],
    ) -> None:
        """`is_done`: whether the client has stopped waiting for the answer."""
        self.share_fetches = share_fetches
        self.asked = asked
        self.on_done = on_done
        self.is_done = is_done
        self.led: dict[Place, LedSharePartition] = {}
        self.results: Results = {}
        self.bucket = -1
        self.busy = False
        self.woken = False
        self.cold_reads = 0

    def on_moved(self) -> None:
        self.share_fetches.wake(self)

    def on_deadline(self) -> None:
        self.share_fetches.look(self, last=True)


class ShareFetches:
    """All share fetches of one broker."""

    def __init__(
        self, ports: Ports, deadlines: Deadlines, led: LedPartitions, sessions_max: int
    ) -> None:
        self._ports = ports
        self._deadlines = deadlines
        self._led = led
        self.sessions = ShareSessions(sessions_max)
        self.acknowledged: Counter[int] = Counter()
        """The number of records by the kind of their acknowledgement, once that is written."""
        self._woken: dict[ShareFetch, None] = {}
        self._cold_reads = itertools.count()
        self._cold_reads_max = ports.bounds.fetch.cold_reads_max

    def __repr__(self) -> str:
        return f"ShareFetches({self.sessions!r}, {self._led!r})"

    # Fetching

    def fetch(
        self,
        asked: FetchTerms,
        places: Sequence[Place],
        wait_ms: float,
        on_done: Callable[[Results], None],
        is_done: Callable[[], bool],
    ) -> None:
        """Acquire records of `places`, and wait for them up to `wait_ms`; `on_done` gets the
        result, perhaps at once."""
        fetch = ShareFetch(self, asked, on_done, is_done)
        for topic_id, index in places:
            key = SharePartitionKey(asked.member.group_id, topic_id, index)
            try:
                led = self._led.open(key)
                fetch.led[topic_id, index] = led
                led.waiting[fetch] = None
            except KafkaError as error:
                fetch.results[topic_id, index] = Delivered(b"", (), error)
        if asked.wanted.records_max <= 0 or asked.bytes_max <= 0 or not fetch.led:
            self._complete(fetch)
            return
        self._deadlines.add(fetch, self._ports.clock.now_ms() + max(wait_ms, 0))
        self.look(fetch, last=wait_ms <= 0)

    def wake(self, fetch: ShareFetch) -> None:
        """Look at the fetch again in the next turn of the loop."""
        if not self._woken:
            self._ports.wakeups.call_soon(self._look_at_woken)
        self._woken[fetch] = None

    def _look_at_woken(self) -> None:
        woken, self._woken = self._woken, {}
        for fetch in woken:
            self.look(fetch, last=False)

    def look(self, fetch: ShareFetch, *, last: bool) -> None:
        """Answer the fetch if there is enough, or if this is the `last` look."""
        if fetch.busy or (not fetch.led and not fetch.results):
            return
        try:
            if fetch.is_done():
                self._unwatch(fetch)
            else:
                self._look(fetch, last=last)
        except Exception as fault:  # noqa: BLE001 - it fails this fetch and no other
            raise_soon(self._ports.wakeups, fault)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(fault))
            fetch.results = {place: Delivered(b"", (), error) for place in fetch.led}
            self._complete(fetch)

    def _look(self, fetch: ShareFetch, *, last: bool) -> None:
        for _ in range(PASSES_MAX):
            reads, cold = self._read(fetch)
            if cold:
                self._read_cold(fetch, cold, last)
                return
            failed = any(result.error is not None for result in fetch.results.values())
            size = sum(len(read.records) for read in reads)
            if not (last or failed or (reads and size >= fetch.asked.bytes_min)):
                return
            before = [
                read.led.share_partition.next_fetch_offset()
                for read in reads
                if read.led.share_partition
            ]
            got = self._acquire(fetch, reads)
            if got or failed:
                break
            after = [
                read.led.share_partition.next_fetch_offset()
                for read in reads
                if read.led.share_partition
            ]
            if before == after:
                if last:
                    break
                return
        self._complete(fetch)

    def _read(self, fetch: ShareFetch) -> tuple[list[_Read], list[Callable[[], Buffer]]]:
        """Read records that may be acquired. Each partition gets an equal part of the fetch's
        bytes; one that has ended gets its error."""
        limits = self._led.limits(fetch.asked.member.group_id)
        ready: list[LedSharePartition] = []
        for place, led in fetch.led.items():
            if led.error is not None:
                fetch.results[place] = Delivered(b"", (), led.error)
            elif led.share_partition is not None and led.share_partition.can_acquire(limits):
                ready.append(led)
        reads: list[_Read] = []
        cold: list[Callable[[], Buffer]] = []
        room = fetch.asked.bytes_max // max(len(ready), 1)
        for led in ready:
            try:
                read = self._read_one(fetch, led, max(room, 1), cold)
            except KafkaError as error:
                place = (led.key.topic_id, led.key.partition)
                fetch.results[place] = Delivered(b"", (), error)
                continue
            if read is not None:
                reads.append(read)
        return reads, cold

    def _read_one(
        self, fetch: ShareFetch, led: LedSharePartition, room: int, cold: list[Callable[[], Buffer]]
    ) -> _Read | None:
        """The batches of one partition from its next offset; None if it has none, or they are not
        in memory."""
        machine, partition = led.share_partition, led.partition
        assert machine is not None
        log = partition.readable_log(-1, leader_only=True)
        machine.advance_log_start(log.log_start_offset)
        offset = machine.next_fetch_offset()
        up_to = log.last_stable_offset if fetch.asked.committed else log.high_watermark
        if offset >= up_to:
            return None
        block = fetch.cold_reads >= self._cold_reads_max
        try:
            found = partition.read(offset, room, up_to, at_least_one=True, block=block)
        except OffsetOutOfRange:
            return None  # the log was truncated, and its new start offset is not known here yet
        if found is None:
            with suppress(KafkaError, CorruptLogError, OSError):
                cold.append(log.read_job(offset, room, up_to=up_to))
            return None
        batches = batches_of(found.records)
        if not batches:
            return None
        aborted: list[tuple[int, int]] = []
        if fetch.asked.committed:
            end = batches[-1].last + 1
            transactions = partition.aborted_transactions(batches[0].first, end)
            aborted = aborted_ranges(found.records, transactions)
        return _Read(led, offset, found.records, batches, aborted)

    def _acquire(self, fetch: ShareFetch, reads: Sequence[_Read]) -> bool:
        """Acquire records of `reads`, and return whether the fetch acquired any."""
        asked, now_ms = fetch.asked, self._ports.clock.now_ms()
        limits = self._led.limits(asked.member.group_id)
        left, got = asked.wanted.records_max, False
        for read in reads:
            machine = read.led.share_partition
            if left <= 0 or machine is None:
                break
            wanted = asked.wanted._replace(records_max=left)
            bounds = [(batch.first, batch.last) for batch in read.batches]
            acquired = machine.acquire(
                asked.member.member_id, wanted, read.offset, bounds, limits, now_ms
            )
            if read.aborted:
                acquired = machine.archive(acquired, read.aborted)
            self._led.arm(read.led)
            if acquired:
                place = (read.led.key.topic_id, read.led.key.partition)
                records = slice_for(read.records, read.batches, acquired)
                fetch.results[place] = Delivered(records, acquired)
                left -= sum(part.last - part.first + 1 for part in acquired)
                got = True
        return got

    def _read_cold(self, fetch: ShareFetch, jobs: list[Callable[[], Buffer]], last: bool) -> None:
        """Bring bytes into memory: read them once on another thread."""
        fetch.busy = True
        fetch.cold_reads += 1

        def read() -> None:
            for job in jobs:
                with suppress(KafkaError, CorruptLogError, OSError):  # the next look reports it
                    job()

        def done(result: object) -> None:
            fetch.busy = False
            self.look(fetch, last=last or fetch.bucket == -1)

        lane = next(self._cold_reads) % COLD_READ_QUEUES
        self._ports.background.run(f"share read {lane}", read, done)

    def _complete(self, fetch: ShareFetch) -> None:
        self._unwatch(fetch)
        results, fetch.results = fetch.results, {}
        fetch.on_done(results)

    def _unwatch(self, fetch: ShareFetch) -> None:
        if fetch.bucket != -1:
            self._deadlines.remove(fetch)
        for led in fetch.led.values():
            led.waiting.pop(fetch, None)
        fetch.led = {}

    # Acknowledging

    def told_most(self, member: Member, place: Place) -> int:
        """The most records that the member can acknowledge one by one: those in flight that it
        can hold, and `RECORD_LOCKS_MAX` others that may no longer be in flight."""
        led = self._led.find(SharePartitionKey(member.group_id, *place))
        if led is None or led.share_partition is None:
            return RECORD_LOCKS_MAX
        return RECORD_LOCKS_MAX + min(led.share_partition.in_flight.size, HELD_MAX)

    def acknowledge(
        self,
        member: Member,
        told: Mapping[Place, Sequence[Acknowledgement]],
        on_done: Callable[[dict[Place, KafkaError | None]], None],
    ) -> None:
        """Apply the member's acknowledgements; `on_done` gets the error of each place, or None,
        once all are written."""
        outcome: dict[Place, KafkaError | None] = {}
        left = len(told)
        if not left:
            on_done(outcome)
            return

        def settled(place: Place, error: KafkaError | None) -> None:
            nonlocal left
            outcome[place] = error
            left -= 1
            if not left:
                on_done(outcome)

        for place, items in told.items():
            self._acknowledge_one(member, place, items, partial(settled, place))

    def _acknowledge_one(
        self,
        member: Member,
        place: Place,
        items: Sequence[Acknowledgement],
        settled: Callable[[KafkaError | None], None],
    ) -> None:
        led = self._led.find(SharePartitionKey(member.group_id, *place))
        if led is None or led.share_partition is None:
            why = "This server does not host this topic-partition."
            settled(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why))
            return
        limits, now_ms = self._led.limits(member.group_id), self._ports.clock.now_ms()
        try:
            change = led.share_partition.acknowledge(member.member_id, items, limits, now_ms)
        except KafkaError as error:
            settled(error)
            return

        def written(error: KafkaError | None) -> None:
            if error is None:
                for item in items:
                    self.acknowledged[item.kind] += item.last - item.first + 1
            settled(error)

        self._led.changed(led, change, written)

    # The end of sessions

    def release(self, session: ShareSession) -> None:
        """The session is over: release the records that its member holds."""
        group_id, member_id = session.member
        for topic_id, index in session.places:
            led = self._led.find(SharePartitionKey(group_id, topic_id, index))
            if led is not None and led.share_partition is not None:
                change = led.share_partition.release(member_id, self._led.limits(group_id))
                if change is not None:
                    self._led.changed(led, change)
        if not self.sessions.has_group(group_id):
            self._led.leave(group_id)

    def on_connection_closed(self, connection_id: int) -> None:
        """A client's connection ended: end its session."""
        for session in self.sessions.on_connection_closed(connection_id):
            self.release(session)
