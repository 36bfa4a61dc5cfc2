"""When a log begins a new segment, and which old ones go."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compactor import LocalCompactor
from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.builder import build_batch
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition
from tests.model.log.log_model import LogModel

NOW = 1_700_000_000_000
HOUR = 3_600_000
CONFIG = LogConfig(segment_bytes=10_000, message_timestamp_after_max_ms=1 << 60)


def new_log(config: LogConfig, index: int = 0) -> PartitionLog:
    disk = SimDisk(random.Random(1)).open_for_process()
    disk.make_dirs("/data")
    name = TopicPartition("t", index)
    return open_log(FileCache(disk), f"/data/{name}", name, config, LogCheckpoints(clean=True)).log


def append(log: PartitionLog, timestamp: int, size: int = 100, *, wall_ms: int = NOW) -> None:
    batch = build_batch([(b"k", b"v" * size)], timestamp_ms=timestamp)
    log.append_as_leader(batch, leader_epoch=0, wall_ms=wall_ms)
    log.high_watermark = log.log_end_offset


def test_a_segment_is_full_by_its_bytes() -> None:
    log = new_log(replace(CONFIG, segment_bytes=1000))
    for _ in range(20):
        append(log, NOW)
    assert all(700 < segment.size <= 1000 for segment in log.segments[:-1])


def test_a_segment_is_full_by_its_index() -> None:
    log = new_log(replace(CONFIG, segment_index_bytes=40, index_interval_bytes=0))
    for _ in range(40):
        append(log, NOW)
    assert len(log.segments) > 4
    assert all(segment.index.size() <= 40 for segment in log.segments)


@pytest.mark.parametrize("interval", [0, 150])
@pytest.mark.parametrize("run", [1, 40])
def test_no_index_gets_larger_than_kafka_opens(run: int, interval: int) -> None:
    """The last entry of a time index comes when its segment is full, and followers write many batches
    at once: Kafka cuts a last segment's indexes to their room, and ends where they have more."""
    config = replace(CONFIG, segment_index_bytes=100, index_interval_bytes=interval)
    leader, follower = new_log(config), new_log(config)
    for at in range(200):
        append(leader, NOW + at)
    while follower.log_end_offset < 200:
        sent = leader.read(follower.log_end_offset, 170 * run)
        assert sent is not None
        follower.append_as_follower(sent.records)
    for log in (leader, follower):
        log.flush()
        log.close()
        sizes = [(s.index.size(), s.time_index.size()) for s in log.segments]
        assert max(size for size, _ in sizes) <= 96 and max(size for _, size in sizes) <= 96
        assert min(size for size, _ in sizes[:-1]) > 30, "and they are used"


def test_indexes_keep_their_bound_after_a_truncation() -> None:
    """Smaller batches bring more entries into the bytes that larger ones had."""
    log = new_log(replace(CONFIG, segment_index_bytes=160, index_interval_bytes=150))
    for at in range(4):
        append(log, NOW + at, 2_000)
    log.truncate_to(1)
    for at in range(200):
        append(log, NOW + at, 100)
        assert log.active.index.size() <= 160 and log.active.time_index.size() <= 160


def test_a_smaller_bound_of_indexes_holds_for_the_active_segment() -> None:
    config = replace(CONFIG, segment_index_bytes=400, index_interval_bytes=150)
    log = new_log(config)
    append(log, NOW)
    log.reconfigure(replace(config, segment_index_bytes=120))
    for at in range(200):
        append(log, NOW + at, 100)
        assert log.active.index.size() <= 120 and log.active.time_index.size() <= 120


def test_segments_are_joined_as_far_as_either_index_has_room() -> None:
    config = replace(
        CONFIG, segment_index_bytes=96, index_interval_bytes=0, cleanup_policy=("compact",)
    )
    log = new_log(config)
    for at in range(30):
        append(log, NOW + at)
        if at % 3 == 2:
            log.roll()
    log.flush()
    log.durability.compactable_to = log.recovery_point
    plan = cleaning_pass.make_plan(log, 0, NOW)
    groups = cleaning_pass.groups_of(plan, plan.bound)
    times = {segment.base_offset: segment.time_index.size() for segment in log.segments}
    sizes = [sum(times[source.base_offset] for source in group) for group in groups]
    assert max(sizes) <= 96 and len(groups) < len(plan.sources)


def test_a_segment_ends_by_the_age_of_its_first_batch() -> None:
    log = new_log(replace(CONFIG, segment_ms=HOUR))
    for minute in range(0, 180, 10):
        append(log, NOW + minute * 60_000)
    assert [segment.base_offset for segment in log.segments] == [0, 7, 14]


@pytest.mark.parametrize("size", [0, 1])
def test_a_batch_that_begins_far_behind_the_end_begins_a_segment(size: int) -> None:
    """A leader's compaction left nothing for more than 2^31 offsets; an empty replica begins at 0, too."""
    log = new_log(replace(CONFIG, index_interval_bytes=0, cleanup_policy=("compact",)))
    for at in range(size):
        append(log, NOW + at)
    far = 3_000_000_000
    for at in range(far, far + 5):
        batch = build_batch([(b"k", b"v")], timestamp_ms=NOW, base_offset=at, leader_epoch=0)
        log.append_as_follower(batch)
    assert log.bases == [0, far]
    assert log.log_end_offset == far + 5
    read = log.read(size, 1000)
    assert read is not None and read.segment_base == far
    for clean in (False, True):
        log.close(clean=clean)
        log = open_log(
            FileCache(log.disk),
            log.directory,
            log.partition,
            log.config,
            LogCheckpoints(clean=clean),
        ).log
        assert (log.bases, log.log_end_offset) == ([0, far], far + 5)


def test_a_compacted_segment_ends_early_enough_for_the_lag_of_compaction() -> None:
    config = replace(CONFIG, segment_ms=24 * HOUR, max_compaction_lag_ms=HOUR)
    compacted, other = new_log(replace(config, cleanup_policy=("compact",))), new_log(config)
    for minute in range(0, 180, 10):
        append(compacted, NOW + minute * 60_000)
        append(other, NOW + minute * 60_000)
    assert [segment.base_offset for segment in compacted.segments] == [0, 7, 14]
    assert len(other.segments) == 1
    other.reconfigure(compacted.config)
    append(other, NOW + 180 * 60_000)
    assert len(other.segments) == 2


def test_a_restart_forgets_not_for_how_long_compaction_may_wait() -> None:
    config = replace(
        CONFIG, segment_ms=24 * HOUR, max_compaction_lag_ms=HOUR, cleanup_policy=("compact",),
        min_cleanable_dirty_ratio=1.0,
    )  # fmt: skip
    log = new_log(config)
    for minute in (0, 50, 70):
        append(log, NOW + minute * 60_000)
    assert log.bases == [0, 2]
    log.close()
    log = open_log(
        FileCache(log.disk),
        log.directory,
        log.partition,
        config,
        LogCheckpoints(clean=True, recovery_point=3),
    ).log
    log.move_high_watermark(3)
    assert not cleaning_pass.make_plan(log, 0, NOW + HOUR).is_due
    assert cleaning_pass.make_plan(log, 0, NOW + HOUR + 1).is_due


@pytest.mark.parametrize("first", [-1, NOW])
def test_the_oldest_dirty_record_need_not_come_first(first: int) -> None:
    """Records without a timestamp, and newer ones, stand before it."""
    config = replace(
        CONFIG, max_compaction_lag_ms=HOUR, cleanup_policy=("compact",),
        min_cleanable_dirty_ratio=1.0,
    )  # fmt: skip
    log = new_log(config)
    for timestamp in (first, NOW - HOUR, NOW + 1):
        append(log, timestamp)
        log.roll()
    log.flush()
    log.durability.compactable_to = log.recovery_point
    assert not cleaning_pass.make_plan(log, 0, NOW).is_due
    assert cleaning_pass.make_plan(log, 0, NOW + 1).is_due
    assert not cleaning_pass.make_plan(log, 2, NOW + 1).is_due


def test_jitter_spreads_rolls_and_is_the_same_after_a_restart() -> None:
    config = replace(CONFIG, segment_ms=HOUR, segment_jitter_ms=HOUR // 2)
    ages = []
    for index in range(20):
        log = new_log(config, index)
        append(log, NOW)
        if index % 2:  # a restart in between
            log.close()
            log = open_log(
                FileCache(log.disk),
                log.directory,
                log.partition,
                config,
                LogCheckpoints(clean=True),
            ).log
        age = 0
        while len(log.segments) == 1:
            age += 60_000
            append(log, NOW + age, 1)
        ages.append(age)
    assert all(HOUR // 2 <= age <= HOUR + 60_000 for age in ages)
    assert len(set(ages)) > 10
    other = new_log(config, 1)
    append(other, NOW)
    append(other, NOW + ages[1] - 60_000, 1)
    assert len(other.segments) == 1
    append(other, NOW + ages[1], 1)
    assert len(other.segments) == 2


@pytest.mark.parametrize("policy", [("delete",), ("compact", "delete"), ("compact",)])
def test_retention_by_time(policy: tuple[str, ...]) -> None:
    log = new_log(replace(CONFIG, segment_bytes=200, retention_ms=HOUR, cleanup_policy=policy))
    for at in range(5):
        append(log, NOW + at)
    log.delete_old_segments(NOW + HOUR)
    assert log.log_start_offset == 0, "the first one is as old as allowed, not older"
    log.delete_old_segments(NOW + HOUR + 5)
    expected = 0 if policy == ("compact",) else 5
    # All are too old, the active one too: it ends, and an empty one follows.
    assert log.log_start_offset == expected
    assert len(log.segments) == (1 if expected else 5)
    append(log, NOW + HOUR + 5)
    assert log.log_end_offset == 6


def test_retention_by_size_keeps_at_least_what_is_asked() -> None:
    log = new_log(replace(CONFIG, segment_bytes=400, retention_bytes=1000, retention_ms=-1))
    for _ in range(30):
        append(log, NOW)
    before = log.size
    log.delete_old_segments(NOW + 1000 * HOUR)
    assert 1000 <= log.size < 1400 < before
    assert log.log_start_offset == log.segments[0].base_offset > 0


def test_nothing_goes_that_is_not_committed() -> None:
    log = new_log(replace(CONFIG, segment_bytes=200, retention_ms=HOUR))
    for at in range(5):
        append(log, NOW + at)
    log.high_watermark = 2
    log.delete_old_segments(NOW + 9 * HOUR)
    assert log.log_start_offset == 2


def test_segments_below_the_log_start_go_whatever_the_policy() -> None:
    log = new_log(replace(CONFIG, segment_bytes=200, cleanup_policy=("compact",)))
    for at in range(5):
        append(log, NOW + at)
    log.advance_log_start(3)
    log.delete_old_segments(NOW)
    assert log.segments[0].base_offset == 3


def test_a_segment_without_timestamps_never_expires_by_time() -> None:
    log = new_log(replace(CONFIG, segment_bytes=200, retention_ms=HOUR))
    for _ in range(3):
        append(log, -1)
    log.delete_old_segments(NOW + 1000 * HOUR)
    assert log.log_start_offset == 0


def test_an_empty_compacted_segment_keeps_no_old_segment_behind_it() -> None:
    """All keys of the first segments have newer values, and no producer writes any more."""
    policies = ("compact", "delete")
    log = new_log(replace(CONFIG, segment_bytes=1000, cleanup_policy=policies, retention_ms=HOUR))
    for _ in range(20):
        append(log, NOW)
    log.roll()
    log.flush()
    log.durability.compactable_to = log.log_end_offset
    plan, compactor = cleaning_pass.make_plan(log, 0, NOW), LocalCompactor()
    compactor.begin(plan, 100)
    for group in cleaning_pass.groups_of(plan, plan.bound):
        assert cleaning_pass.swap(log, plan, compactor.clean(group))
    assert [segment.size > 0 for segment in log.segments[-3:]] == [False, True, False]
    assert not log.delete_old_segments(NOW + HOUR)
    assert log.delete_old_segments(NOW + 2 * HOUR)
    assert [segment.base_offset for segment in log.segments] == [20]


@pytest.mark.parametrize("seed", range(4))
def test_producer_state_outlives_its_batches_and_a_loss_of_power(seed: int) -> None:
    """Only the snapshot of the roll knows them, and the batch that made the log roll is behind it."""
    model = LogModel(seed)
    for _ in range(3):
        model.append_idempotent(1, 2, transactional=False)
    model.roll()
    model.append(1, 20)
    model.sync()
    model.advance_start(model.log.active.base_offset)
    model.retain()
    assert model.log.segments[0].base_offset == 6
    model.append(1, 20)
    model.sync()
    model.lose_power()
    assert model.log.producers.entries[1].last_sequence == 5


def test_a_reader_up_to_the_middle_of_a_batch_gets_what_ends_before() -> None:
    """A high watermark of an earlier life may lie inside a batch that has replaced what it covered: that one
    is not committed (seed 651594)."""
    model = LogModel(1)
    model.append(2, 60)
    model.append(5, 60)
    log = model.log
    first = log.read(0, 10_000, up_to=2)
    assert first is not None and len(first.records)
    for up_to in (3, 6):
        found = log.read(0, 10_000, up_to=up_to)
        assert found is not None and bytes(found.records) == bytes(first.records)
        found = log.read(2, 10_000, up_to=up_to)
        assert found is not None and not found.records
    model.log.roll()
    found = log.read(4, 10_000, up_to=7)
    assert found is not None and len(found.records)
