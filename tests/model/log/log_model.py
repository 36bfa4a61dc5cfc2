"""A real log on a simulated disk beside a list of batches: what every operation may do, and no more.

The list is the truth. A kill must give it back whole; a power loss may give back less, down to the
recovery point, or the state before a cut that was not synced, but nothing that the log never was.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog, ReadResult
from barnabas.record.batch import BatchHeader, CorruptBatchError, iterate
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.decode import records_of
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

PARTITION = TopicPartition("t", 0)
ROOT = "/data"
DIRECTORY = f"{ROOT}/{PARTITION}"
START_MS = 1_700_000_000_000


class Entry(NamedTuple):
    """One batch as it should stand in the log."""

    header: BatchHeader
    data: bytes


class LogModel:
    """Plays operations; each checks itself."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.device = SimDisk(random.Random(seed + 1))
        self.config = LogConfig(
            segment_bytes=self.rng.choice([600, 1500, 4000]),
            index_interval_bytes=self.rng.choice([0, 100, 400]),
            segment_index_bytes=self.rng.choice([36, 1 << 20]),
            retention_bytes=self.rng.choice([-1, 1000]),
            cleanup_policy=("delete",),
            preallocate=self.rng.random() < 0.3,
        )
        self.epoch = 0
        self.now = START_MS
        self.entries: list[Entry] = []
        self.log_start = 0
        self.end = 0
        self.recovery_point = 0
        """As a checkpoint has it, durably."""
        self.earlier: list[list[Entry]] = []
        """What the log was before cuts that no sync has followed yet."""
        self.sequences: dict[int, int] = {}
        self.retained_away: list[BatchHeader] = []
        """What retention took: a transaction that began there is open all the same."""
        self.log = self._open(clean=False)
        self.log.flush()
        self._synced()

    # -- opening ---------------------------------------------------------------------------------

    def _open(self, *, clean: bool) -> PartitionLog:
        self.disk = self.device.open_for_process()
        self.disk.make_dirs(ROOT)
        self.files = FileCache(self.disk, limit=5)
        opened = open_log(
            self.files,
            DIRECTORY,
            PARTITION,
            self.config,
            LogCheckpoints(
                clean=clean, recovery_point=self.recovery_point, log_start_offset=self.log_start
            ),
        )
        log = opened.log

        def lower() -> None:
            self.recovery_point = min(self.recovery_point, log.recovery_point)

        log.durability.watch_recovery_point(lower)
        return log

    def reopen(self, *, clean: bool = False) -> None:
        """A new life of the process."""
        self.log = self._open(clean=clean)

    def _synced(self) -> None:
        self.recovery_point = self.log.durability.checkpointed_recovery_point = (
            self.log.recovery_point
        )
        self.earlier = []

    # -- operations ------------------------------------------------------------------------------

    def append(self, records: int, size: int) -> None:
        self.now += self.rng.randrange(0, 50)
        batch = build_batch(
            [(b"k%d" % at, self.rng.randbytes(size), (), self.now - at) for at in range(records)],
            timestamp_ms=self.now,
        )
        info = self.log.append_as_leader(batch, leader_epoch=self.epoch, wall_ms=self.now)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + records - 1)
        self._took(self.log.read(info.first_offset, 1))

    def append_idempotent(self, producer: int, records: int, transactional: bool) -> None:
        self.now += 1
        sequence = self.sequences.get(producer, 0)
        batch = build_batch(
            [(None, b"x" * 20)] * records,
            timestamp_ms=self.now,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
        )
        append = self.log.append_as_leader
        try:
            first = append(batch, leader_epoch=self.epoch, wall_ms=self.now)
        except KafkaError:
            # A cut or a power loss took what the producer knows to be written, or a transaction is open.
            return
        if first.duplicate:
            return
        self.sequences[producer] = sequence + records
        self._took(self.log.read(first.first_offset, 1))
        again = append(batch, leader_epoch=self.epoch, wall_ms=self.now)
        assert again.duplicate and again.first_offset == first.first_offset
        assert self.log.log_end_offset == self.end

    def end_transaction(self, producer: int, commit: bool) -> None:
        marker = end_transaction_marker(
            commit=commit,
            timestamp_ms=self.now,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=1,
        )
        info = self.log.append_as_leader(
            marker, leader_epoch=self.epoch, wall_ms=self.now, origin=AppendOrigin.COORDINATOR
        )
        self._took(self.log.read(info.first_offset, 1))

    def append_as_follower(self, gap: int, records: int, batches: int = 1, tail: str = "") -> None:
        """A run of batches; `tail`: the last one is cut off, corrupt, or does not follow."""
        run, offset = list[bytes](), self.end + gap
        for at in range(batches + bool(tail)):
            run.append(
                build_batch(
                    [(None, b"f" * self.rng.choice([3, 30, 200]))] * records,
                    timestamp_ms=self.now + at,
                    base_offset=0 if tail == "back" and at == batches else offset,
                    leader_epoch=self.epoch,
                )
            )
            offset += records
        good = run[:batches]
        if tail == "cut":
            run[-1] = run[-1][:-1]
        elif tail == "corrupt":
            run[-1] = run[-1][:-1] + bytes([run[-1][-1] ^ 1])
        try:
            self.log.append_as_follower(b"".join(run))
            assert tail in ("", "cut")
        except (CorruptBatchError, KafkaError):
            assert tail in ("corrupt", "back")
        for data in good:
            (batch,) = iterate(data)
            self.entries.append(Entry(batch.header, data))
            self.end = batch.header.next_offset
        assert self.log.log_end_offset == self.end

    def _took(self, given: bytes | ReadResult | None) -> None:
        assert given is not None
        data = given if isinstance(given, bytes) else bytes(given.records)
        (batch,) = iterate(data, crc=True, partial_tail=False)
        self.entries.append(Entry(batch.header, data))
        self.end = batch.header.next_offset
        assert self.log.log_end_offset == self.end

    def new_epoch(self) -> None:
        self.epoch += self.rng.randrange(1, 3)

    def truncate(self, offset: int) -> None:
        before = list(self.entries)
        first = self.log.segments[0].base_offset
        self.log.truncate_to(offset)
        if offset >= self.end:
            assert self.log.log_end_offset == self.end
            return
        kept = [e for e in before if e.header.next_offset <= offset]
        end = kept[-1].header.next_offset if kept else first
        if offset <= self.log_start:
            self.entries, self.log_start, self.end = [], offset, offset
            self.retained_away = [e for e in self.retained_away if e.base_offset < offset]
        elif end <= self.log_start:
            self.entries, self.end = [], self.log_start
        else:
            self.entries, self.end = kept, end
        assert self.log.log_end_offset == self.end
        self.earlier.append(before)

    def start_over(self, offset: int) -> None:
        self.earlier.append(list(self.entries))
        self.log.truncate_fully_and_start_at(offset)
        self.entries, self.log_start, self.end = [], offset, offset
        self.retained_away = []

    def sync(self, between: Callable[[], None] | None = None) -> None:
        job, on_synced = self.log.sync_job()
        cuts = self.log.generations.truncation_count
        job()
        if between is not None:
            between()
        on_synced()
        if self.log.generations.truncation_count == cuts:
            self._synced()

    def roll(self) -> None:
        if self.log.active.size:
            self.log.roll()

    def advance_start(self, offset: int) -> None:
        offset = min(max(offset, 0), self.end)
        self.log.advance_log_start(offset)
        self.log_start = max(self.log_start, offset)

    def retain(self) -> None:
        self.log.high_watermark = self.rng.randrange(self.log_start, self.end + 1)
        watermark = self.log.high_watermark
        gone = self.log.delete_old_segments(self.now)
        assert all(segment.base_offset < watermark for segment in gone)
        self.log_start = self.log.log_start_offset
        assert self.log_start <= max(watermark, self.log_start)
        first = self.log.segments[0].base_offset
        self.retained_away += [e.header for e in self.entries if e.header.base_offset < first]
        self.entries = [e for e in self.entries if e.header.base_offset >= first]

    # -- ends of a process -----------------------------------------------------------------------

    def kill(self) -> None:
        self.device.process_died()
        self.log = self._open(clean=False)
        assert self.log.log_end_offset == self.end
        self.check()

    def restart(self, power_loss: bool) -> None:
        """A clean end vouches for everything, also where the machine is switched off after it."""
        self.log.close()
        self.device.process_died(power_loss=power_loss)
        self.recovery_point = self.log.log_end_offset
        self.log = self._open(clean=True)
        self.earlier = []
        assert self.log.log_end_offset == self.end
        self.check()

    def lose_power(self) -> None:
        self.device.process_died(power_loss=True)
        self.log = self._open(clean=False)
        found = self.content()
        for state in [self.entries, *reversed(self.earlier)]:
            kept = [e for e in state if e.header.next_offset > self.log.log_start_offset]
            if found == [e.data for e in kept[: len(found)]]:
                break
        else:
            raise AssertionError("after the power loss the log is what it never was")
        assert self.log.log_end_offset >= min(self.recovery_point, self.end)
        self.end = self.log.log_end_offset
        self.entries = [e for e in state if e.header.next_offset <= self.end]
        self.log_start = self.log.log_start_offset
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)
        self.sequences.clear()
        self.check()
        self.log.flush()
        self._synced()

    # -- checks ----------------------------------------------------------------------------------

    def content(self) -> list[bytes]:
        """All batches that reads give, from the log's start."""
        offset, found = self.log.log_start_offset, []
        while offset < self.log.log_end_offset:
            read = self.log.read(offset, self.rng.choice([1, 500, 10_000]))
            assert read is not None
            batches = list(iterate(read.records, crc=True))
            if not batches:
                break
            assert batches[0].header.next_offset > offset
            found += [bytes(batch.data) for batch in batches]
            offset = batches[-1].header.next_offset
        return found

    def check(self) -> None:
        """Everything that can be asked, against the list."""
        visible = [e for e in self.entries if e.header.next_offset > self.log_start]
        assert self.log.log_start_offset == self.log_start
        self.log.validate()
        assert self.content() == [e.data for e in visible]
        self._check_bounds(visible)
        self._check_epochs(visible)
        self._check_timestamps(visible)
        self._check_indexes()
        self._check_producers(visible)

    def _check_bounds(self, visible: list[Entry]) -> None:
        for entry in self.rng.sample(visible, min(len(visible), 4)):
            header = entry.header
            offset = self.rng.randrange(header.base_offset, header.next_offset)
            if offset < self.log_start:
                continue
            found = self.log.read(offset, 1)
            assert found is not None and bytes(found.records) == entry.data
            found = self.log.read(offset, 1 << 20, up_to=header.next_offset)
            assert found is not None and bytes(found.records) == entry.data

    def _check_epochs(self, visible: list[Entry]) -> None:
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for entry in visible:
            starts.setdefault(entry.header.leader_epoch, entry.header.base_offset)
            ends[entry.header.leader_epoch] = entry.header.next_offset
        epochs = sorted(starts)
        for at, epoch in enumerate(epochs, 1):
            known, end = self.log.epoch_end_offset(epoch)
            # The next one may have begun in the gap before its first batch.
            most = self.end if at == len(epochs) else starts[epochs[at]]
            assert known == epoch and ends[epoch] <= end <= most, (epoch, end, starts)
        if epochs:
            assert self.log.last_written_epoch == epochs[-1]
            latest, start = self.log.epochs.entries()[-1]
            # One may have begun at the end, though what was written in it was lost with the power.
            assert latest == epochs[-1] or (latest > epochs[-1] and start == self.end)

    def _check_timestamps(self, visible: list[Entry]) -> None:
        records = [
            record
            for entry in visible
            for batch in iterate(entry.data)
            for record in records_of(batch)
            if record.offset >= self.log_start
        ]
        for record in self.rng.sample(records, min(len(records), 3)):
            wanted = record.timestamp + self.rng.randrange(-1, 2)
            first = next(((r.timestamp, r.offset) for r in records if r.timestamp >= wanted), None)
            assert self.log.search_job(wanted)() == first
        largest = max((record.timestamp for record in records), default=-1)
        newest = next(((r.timestamp, r.offset) for r in records if r.timestamp == largest), None)
        assert self.log.search_job(None)() == newest

    def _check_indexes(self) -> None:
        for segment in self.log.segments:
            where = {batch.position: batch.header for batch in segment.headers()}
            for relative, position in segment.index.entries():
                assert where[position].last_offset == segment.base_offset + relative

    def _check_producers(self, visible: list[Entry]) -> None:
        last = {e.header.producer_id: e.header.last_sequence for e in visible if is_data(e.header)}
        states = self.log.producers
        for producer, sequence in last.items():
            assert states.entries[producer].last_sequence == sequence
        # A transaction's start outlives its first batches; who lost it begins with what is left.
        first = self.entries[0].header.base_offset if self.entries else self.end
        gone = [header for header in self.retained_away if header.base_offset < first]
        batches = open_batches([*gone, *(e.header for e in self.entries)])
        for producer, offsets in batches.items():
            left = [offset for offset in offsets if offset >= self.log_start]
            known = states.open_transactions.get(producer)
            assert known in offsets if left else known is None or known in offsets
            assert known is None or not left or known <= left[0]
        assert states.open_transactions.keys() <= batches.keys()
        found = list(states.open_transactions.values())
        assert found == sorted(found)
        first_open = max(found[0], self.log_start) if found else self.end
        assert self.log_start <= self.log.last_stable_offset <= first_open


def is_data(header: BatchHeader) -> bool:
    """Whether a producer numbered it."""
    return header.producer_id >= 0 and not header.is_control


def open_batches(headers: list[BatchHeader]) -> dict[int, list[int]]:
    """First offsets of the batches of each producer's open transaction."""
    found: dict[int, list[int]] = {}
    for header in headers:
        if header.is_control:
            found.pop(header.producer_id, None)
        elif header.is_transactional:
            found.setdefault(header.producer_id, []).append(header.base_offset)
    return found
