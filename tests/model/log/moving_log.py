"""A log of a broker with two directories beside what was written to it, through moves from one to the other,
cuts, upkeep, clean ends, kills and power losses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from barnabas.log.directories.future_log_copy import align, append_run
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.record.decode import records_of
from barnabas.types import TopicPartition, Uuid
from tests.unit.log.directories_world import DirectoriesWorld

PARTITION = TopicPartition("t", 0)
TOPIC_ID = Uuid(b"0123456789abcdef")
WALL_MS = 1_750_000_000_000
READ_BYTES = 500
Batches = list[tuple[int, bytes]]
"""Base offset and bytes of each."""


class MovingLog:
    """`log` is the partition's now; `copy` the one that is to take its place, if any."""

    def __init__(self, seed: int, **settings: str) -> None:
        self.rng = random.Random(seed)
        checkpoints: Mapping[str, str] = {
            "log.flush.offset.checkpoint.interval.ms": "3000",
            "log.retention.check.interval.ms": "2000",
        }
        self.world = DirectoriesWorld(seed, {**checkpoints, **settings})
        self.configure()
        self.epoch = 1
        self._highest_start = 0
        self.log = self.world.logs.create(PARTITION, TOPIC_ID)

    def configure(self) -> None:
        self.world.config = replace(
            self.world.config,
            segment_bytes=self.rng.choice([600, 1500]),
            retention_bytes=self.rng.choice([-1, 3000]),
            file_delete_delay_ms=1000,
        )

    @property
    def copy(self) -> PartitionLog | None:
        return self.world.logs.futures.logs.get(PARTITION)

    # -- what happens to it ----------------------------------------------------------------------

    def append(self, batches: int, size: int) -> None:
        before = self.log.log_end_offset
        for _ in range(batches):
            key, value = b"%d" % self.rng.randrange(5), self.rng.randbytes(4) + bytes(size)
            batch = build_batch([(key, value)], timestamp_ms=WALL_MS)
            self.log.append_as_leader(batch, leader_epoch=self.epoch, wall_ms=WALL_MS)
            self.on_append(key, value)
        self.world.logs.after_append(self.log, before)

    def commit(self) -> None:
        self.log.move_high_watermark(self.log.log_end_offset)

    def truncate(self, back: int) -> None:
        self.before_cut()
        self.log.truncate_to(max(self.log.log_end_offset - back, self.least_cut()))
        self.on_cut()
        self.epoch += 1

    def start_over(self, ahead: int) -> None:
        self.before_cut()
        self.log.truncate_fully_and_start_at(self.log.log_end_offset + ahead)
        self._highest_start = self.log.log_start_offset
        self.on_cut()
        self.epoch += 1

    def advance(self, ahead: int) -> None:
        log = self.log
        log.advance_log_start(min(log.log_start_offset + ahead, log.high_watermark))

    def wait(self, duration_ms: float) -> None:
        self.world.run_ms(duration_ms)

    # -- moves -----------------------------------------------------------------------------------

    def begin_move(self) -> None:
        logs = self.world.logs
        if self.copy is None:
            home = logs.directory_of(PARTITION)
            logs.cleaner.pause(PARTITION)
            logs.futures.create(
                PARTITION, next(d for d in logs.directories if d is not home), self.log
            )

    def copy_some(self, runs: int) -> bool:
        """Whether the copy has all that the log has."""
        log, copy = self.log, self.copy
        if copy is None:
            return False
        self.world.logs.cleaner.pause(PARTITION)
        for _ in range(runs):
            align(log, copy)
            if copy.log_end_offset == log.log_end_offset:
                return True
            read = log.read(copy.log_end_offset, READ_BYTES)
            assert read is not None
            append_run(log, copy, read.records)
        return False

    def end_move(self, synced_ms: int) -> None:
        """The copy takes the log's place; a sync of it may be under way."""
        logs = self.world.logs
        if not self.copy_some(1000):
            return
        if synced_ms >= 0:
            logs.futures.sync(PARTITION, lambda: None)
            self.wait(synced_ms)
        copy = self.copy
        if copy is None or not self.copy_some(1000):  # retention may have come
            return
        copy.flush()
        before = self.batches()
        self.log = logs.futures.replace_current(PARTITION)
        logs.cleaner.resume(PARTITION)
        self.on_moved(before)

    def drop_copy(self) -> None:
        if self.copy is not None:
            self.world.logs.futures.drop(PARTITION)
            self.world.logs.cleaner.resume(PARTITION)

    # -- ends and starts -------------------------------------------------------------------------

    def restart(self, how: str) -> None:
        """`how`: stop, kill, power."""
        end, start, before = self.log.log_end_offset, self.log.log_start_offset, self.batches()
        self._highest_start = max(self._highest_start, start)
        if how == "stop":
            self.world.stop()
        else:
            self.world.kill(power_loss=how == "power")
        self.world.start()
        self.epoch += 1
        assert not self.world.offline
        logs = self.world.logs
        found = logs.logs.get(PARTITION)
        if found is None or found.topic_id is None:
            # Its names had not come to the device, nor the file that says whose it is.
            assert how == "power"
            logs.delete(PARTITION)
            self.log = logs.create(PARTITION, TOPIC_ID)
            self._highest_start = 0
            self.on_lost()
            return
        self.log = found
        if how != "power":
            assert found.log_end_offset == end
            since = max(start, found.log_start_offset)
            assert behind(before, since) == behind(self.batches(), since)
        else:
            self.check_after_power_loss(before, max(start, found.log_start_offset))
            found.flush()
            self.wait(4000)
        if how == "stop":
            assert logs.previous_broker_epoch == 5
        self.check_epochs()

    # -- what is true ----------------------------------------------------------------------------

    def batches(self) -> Batches:
        return [
            (batch.header.base_offset, bytes(segment.view(batch).data))
            for segment in self.log.segments
            for batch in segment.headers(crc=True)
        ]

    def check_epochs(self) -> None:
        """Below the log's start, which a kill may take back, none are known."""
        epochs, start = self.log.epochs, self._highest_start
        for segment in self.log.segments:
            for header, _ in segment.headers():
                if header.base_offset >= start:
                    assert epochs.epoch_of(header.base_offset) == header.leader_epoch

    # -- what the two kinds of log tell apart ----------------------------------------------------

    def on_append(self, key: bytes, value: bytes) -> None:
        pass

    def before_cut(self) -> None:
        pass

    def on_cut(self) -> None:
        pass

    def least_cut(self) -> int:
        return self.log.log_start_offset

    def on_moved(self, before: Batches) -> None:
        pass

    def on_lost(self) -> None:
        pass

    def check_after_power_loss(self, before: Batches, since: int) -> None:
        raise NotImplementedError


class MovingPlainLog(MovingLog):
    """Whose batches stay as they are. A loss of power may undo cuts, and takes what was not synced."""

    def __init__(self, seed: int) -> None:
        self._earlier: list[Batches] = []
        super().__init__(seed)

    def before_cut(self) -> None:
        self._earlier.append(self.batches())

    def on_moved(self, before: Batches) -> None:
        since = self.log.log_start_offset
        assert behind(before, since) == behind(self.batches(), since)
        self._earlier = []  # the copy, which was synced, knows no cut

    def on_lost(self) -> None:
        self._earlier = []

    def check_after_power_loss(self, before: Batches, since: int) -> None:
        found = behind(self.batches(), since)
        possible = [behind(batches, since) for batches in (before, *reversed(self._earlier))]
        assert any(found == batches[: len(found)] for batches in possible)
        self._earlier = []


class MovingCompactedLog(MovingLog):
    """Of which the last record of each key stays. What may be cut was not compacted: it is not committed."""

    def __init__(self, seed: int) -> None:
        self._written: list[tuple[int, bytes, bytes]] = []
        self._earlier: list[list[tuple[int, bytes, bytes]]] = []
        self._committed = 0
        slowly = {"log.cleaner.io.max.bytes.per.second": "1000"} if seed % 2 else {}
        always = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.01"}
        super().__init__(seed, **always, **slowly)

    def configure(self) -> None:
        self.world.config = replace(
            self.world.config,
            segment_bytes=self.rng.choice([300, 800]),
            index_interval_bytes=self.rng.choice([50, 4096]),
            file_delete_delay_ms=1000,
            cleanup_policy=("compact",),
            min_cleanable_dirty_ratio=0.01,
        )

    def on_append(self, key: bytes, value: bytes) -> None:
        self._written.append((self.log.log_end_offset - 1, key, value))

    def commit(self) -> None:
        super().commit()
        self._committed = self.log.log_end_offset

    def advance(self, ahead: int) -> None:
        """No client deletes records of a topic that is only compacted."""

    def least_cut(self) -> int:
        return self._committed

    def before_cut(self) -> None:
        self._earlier.append(list(self._written))

    def on_cut(self) -> None:
        end = self.log.log_end_offset
        self._written = [entry for entry in self._written if entry[0] < end]

    def start_over(self, ahead: int) -> None:
        """Only where nothing is committed."""

    def on_moved(self, before: Batches) -> None:
        self._earlier = []
        self.check_values()

    def on_lost(self) -> None:
        self._written, self._earlier, self._committed = [], [], 0

    def restart(self, how: str) -> None:
        assert not self.world.logs.cleaner.uncleanable
        super().restart(how)
        self.check_values()

    def check_after_power_loss(self, before: Batches, since: int) -> None:
        end, found = self.log.log_end_offset, self.values()
        possible = [self._written, *reversed(self._earlier)]
        self._written = next(
            [entry for entry in written if entry[0] < end]
            for written in possible
            if found == last_values(written, end)
        )
        self._earlier = []
        self._committed = min(self._committed, end)

    def check_values(self) -> None:
        assert self.values() == last_values(self._written, self.log.log_end_offset)

    def values(self) -> dict[bytes, tuple[int, bytes]]:
        """What a reader from the beginning ends up with."""
        log, found = self.log, dict[bytes, tuple[int, bytes]]()
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 3000)
            run = list(iterate(read.records, crc=True)) if read is not None else []
            if not run:
                break
            for batch in run:
                assert batch.header.next_offset > offset
                offset = batch.header.next_offset
                for record in records_of(batch):
                    found[record.key or b""] = (record.offset, record.value or b"")
        return found


def behind(batches: Batches, offset: int) -> Batches:
    """Those that begin at or behind `offset`."""
    return [batch for batch in batches if batch[0] >= offset]


def last_values(
    written: list[tuple[int, bytes, bytes]], end: int
) -> dict[bytes, tuple[int, bytes]]:
    """Of each key, below offset `end`."""
    return {key: (offset, value) for offset, key, value in written if offset < end}
