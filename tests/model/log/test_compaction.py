"""Compaction against a dictionary: what a reader from the beginning ends up with never changes.

Keys, tombstones, open, committed and aborted transactions, several rounds, kills and power losses in the
middle of a swap, with every codec, and rot in indexes that have no CRC of their own.
"""

from __future__ import annotations

import os
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.log.compaction import cleaning_pass
from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import TXN_INDEX
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.decode import Record, records_of
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError
from tests.effort import examples

EXAMPLES = examples(int(os.environ.get("BARNABAS_MODEL_EXAMPLES", "2000")) // 4)
PARTITION = TopicPartition("compacted", 0)
RETENTION_MS = 100


class Compacted:
    """A compacted log beside every record that was ever written to it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.device = SimDisk(random.Random(seed))
        self.config = LogConfig(
            segment_bytes=self.rng.choice([400, 1000]),
            index_interval_bytes=self.rng.choice([0, 100]),
            cleanup_policy=("compact",),
            delete_retention_ms=RETENTION_MS,
        )
        self.now = 1_700_000_000_000
        self.recovery_point = self.first_dirty = 0
        self.committed: set[int] = set()
        """Offsets of records that count."""
        self.waiting: dict[int, list[int]] = {}
        self.sequences: dict[int, int] = {}
        self.all: dict[int, Record] = {}
        self.open()

    def open(self) -> None:
        self.disk = self.device.open_for_process()
        self.disk.make_dirs("/data")
        opened = open_log(
            FileCache(self.disk, 6),
            f"/data/{PARTITION}",
            PARTITION,
            self.config,
            LogCheckpoints(clean=False, recovery_point=self.recovery_point),
        )
        self.log: PartitionLog = opened.log

    def write(self, keys: list[int], tombstones: bool, codec: int, producer: int) -> None:
        self.now += 10
        pairs = []
        for key in keys:
            value = None if tombstones else self.rng.randbytes(self.rng.randrange(0, 40))
            long = b"a key that is longer than the map keeps as it is: "
            pairs.append(((long if key % 3 == 0 else b"k") + b"%d" % key, value))
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        batch = build_batch(
            [(key, value, (), self.now) for key, value in pairs],
            timestamp_ms=self.now,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=producer >= 0,
        )
        try:
            info = self.log.append_as_leader(batch, leader_epoch=1, wall_ms=self.now)
        except KafkaError:
            return
        offsets = []
        for record in records_of(next(iterate(batch))):
            at = info.first_offset + record.offset
            self.all[at] = record._replace(offset=at)
            offsets.append(at)
        if producer >= 0:
            self.sequences[producer] = sequence + len(keys)
            self.waiting.setdefault(producer, []).extend(offsets)
        else:
            self.committed.update(offsets)

    def values(self) -> dict[bytes, bytes]:
        """What a reader of committed records ends up with."""
        values: dict[bytes, bytes] = {}
        for offset in sorted(self.committed):
            record = self.all[offset]
            if record.value is None:
                values.pop(record.key or b"", None)
            else:
                values[record.key or b""] = record.value
        return values

    def end(self, producer: int, commit: bool) -> None:
        marker = end_transaction_marker(
            commit=commit,
            timestamp_ms=self.now,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=1,
        )
        self.log.append_as_leader(
            marker, leader_epoch=1, wall_ms=self.now, origin=AppendOrigin.COORDINATOR
        )
        offsets = self.waiting.pop(producer, [])
        if commit:
            self.committed.update(offsets)

    def sync(self) -> None:
        self.log.flush()
        self.recovery_point = self.log.durability.checkpointed_recovery_point = (
            self.log.recovery_point
        )
        self.log.durability.compactable_to = self.recovery_point

    def compact(self, keys_max: int, groups_max: int) -> None:
        self.now += self.rng.choice([0, 10, 2 * RETENTION_MS])
        self.log.roll()
        self.sync()
        self.log.high_watermark = self.log.log_end_offset
        plan = cleaning_pass.make_plan(self.log, self.first_dirty, self.now)
        keys = cleaning_pass.build_map(plan, keys_max)
        trail = cleaning_pass.trail_of(plan)
        for group in cleaning_pass.groups_of(plan, keys.end)[:groups_max]:
            assert cleaning_pass.swap(
                self.log, plan, cleaning_pass.clean_group(plan, group, keys, trail)
            )
        if groups_max > 50:
            self.first_dirty = keys.end

    def die(self, power_loss: bool) -> None:
        end = self.log.log_end_offset
        self.sync()
        self.device.process_died(power_loss=power_loss)
        self.open()
        assert self.log.log_end_offset == end

    def rot(self, bits: int) -> None:
        """While no process has the log, bits of its indexes of aborted transactions flip."""
        self.sync()
        self.device.process_died(power_loss=False)
        indexes = [path for path in sorted(self.device.names) if path.endswith(TXN_INDEX)]
        for path in indexes:
            size = len(self.device.content(path))
            for _ in range(bits if size else 0):
                self.device.rot(path, self.rng.randrange(size), self.rng.randrange(8))
        self.open()

    def check(self) -> None:
        """Read everything as a consumer of committed records does."""
        log = self.log
        log.high_watermark = log.log_end_offset
        stable = log.last_stable_offset
        offset, batches = log.log_start_offset, []
        while offset < log.log_end_offset:
            found = log.read(offset, 300)
            assert found is not None
            run = list(iterate(found.records, crc=True))
            if not run:
                break
            batches += run
            offset = run[-1].header.next_offset
        aborted = sorted(log.read_transactions(0, log.log_end_offset), key=lambda a: a[1])
        seen: dict[bytes, bytes] = {}
        void: set[int] = set()
        last = -1
        for batch in batches:
            header = batch.header
            assert header.base_offset > last
            last = header.last_offset
            if header.base_offset >= stable:
                break
            while aborted and aborted[0][1] <= header.last_offset:
                void.add(aborted.pop(0)[0])
            if header.is_control:
                void.discard(header.producer_id)
                continue
            for record in records_of(batch):
                assert record == self.all[record.offset], "a record changed"
                if header.is_transactional and header.producer_id in void:
                    continue
                if record.value is None:
                    seen.pop(record.key or b"", None)
                else:
                    seen[record.key or b""] = record.value
        if stable == log.log_end_offset:
            assert seen == self.values()


STEPS = st.one_of(
    st.tuples(
        st.just("write"),
        st.lists(st.integers(0, 6), min_size=1, max_size=4),
        st.booleans(),
        st.integers(0, 4),
        st.sampled_from([-1, -1, -1, 1, 2]),
    ),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("compact"), st.sampled_from([1, 3, 1000]), st.sampled_from([1, 99])),
    st.tuples(st.just("die"), st.booleans()),
    st.tuples(st.just("rot"), st.integers(1, 2)),
    st.tuples(st.just("check")),
)


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(seed=st.integers(0, 1 << 16), steps=st.lists(STEPS, min_size=4, max_size=30))
def test_compaction_changes_nothing_that_a_reader_ends_up_with(
    seed: int, steps: list[tuple[Any, ...]]
) -> None:
    model = Compacted(seed)
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
    for producer in (1, 2):
        model.end(producer, True)
    model.check()
    model.compact(1000, 99)
    model.check()
    model.die(False)
    model.check()
