"""What a round of compaction leaves, and that it may be interrupted at any call."""

from __future__ import annotations

import random

import pytest

from barnabas.log.compaction.compaction_rules import (
    CompactionRules,
    OffsetMap,
    TransactionTrail,
    compact_batch,
    note_keys,
)
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin
from barnabas.log.state.producer_state import snapshot_offsets, write_snapshot
from barnabas.record.batch import HEADER_SIZE, BatchView, iterate, read_header, write_header
from barnabas.record.builder import build_batch, end_transaction_marker, write_record
from barnabas.record.decode import Record, records_of
from barnabas.sim.world.disk import SimDisk
from tests.model.log.test_compaction import RETENTION_MS, Compacted
from tests.unit.log.partition.test_rot import opened


def stored(model: Compacted) -> list[Record]:
    """Every record that is on disk, markers left out."""
    found = []
    for segment in model.log.segments:
        for batch in iterate(segment.file().read_at(0, segment.size), crc=True):
            if not batch.header.is_control:
                found += list(records_of(batch))
    return found


def written(seed: int = 1) -> Compacted:
    model = Compacted(seed)
    for round_ in range(6):
        model.write([1, 2, 3, 4], False, round_ % 5, -1)
    model.write([1, 2], True, 0, -1)
    model.write([5], False, 0, 1)
    model.end(1, False)
    model.write([6], False, 0, 2)
    model.end(2, True)
    return model


def test_the_last_record_of_a_key_stays_at_its_offset() -> None:
    model = written()
    model.compact(1000, 99)
    records = stored(model)
    assert [(r.offset, r.value is None) for r in records] == [
        (22, False), (23, False), (24, True), (25, True), (28, False),
    ]  # fmt: skip
    model.check()


def test_tombstones_and_markers_go_after_their_horizon() -> None:
    model = written()
    for _ in range(2):
        again(model)
    assert [r.offset for r in stored(model)] == [22, 23, 28]
    assert markers(model) == [1, 2], "their producers live: an empty batch of theirs is still there"
    model.log.producers.clear(model.log.log_end_offset)
    for _ in range(4):
        again(model)
    assert markers(model) == [2], "its transaction still has a record"
    model.check()


def test_an_empty_marker_goes_with_its_producer() -> None:
    """Each transaction of Kafka 4 ends with an epoch more, and the marker is all that is known of it."""
    model = Compacted(1)
    model.write([1], False, 0, 1)
    marker = end_transaction_marker(
        commit=True, timestamp_ms=1, producer_id=1, producer_epoch=1, coordinator_epoch=0
    )
    model.log.append_as_leader(marker, leader_epoch=1, wall_ms=1, origin=AppendOrigin.COORDINATOR)
    model.write([1, 2], False, 0, -1)
    model.log.move_high_watermark(model.log.log_end_offset)
    for known in (True, True, True, False, False):
        if not known:
            model.log.producers.clear(model.log.log_end_offset)
        again(model)
        batches = [batch.header for segment in model.log.segments for batch in segment.headers()]
        assert [header.producer_id for header in batches if header.is_control] == [1] * known
    assert not markers(model)


def test_snapshots_of_producers_go_with_the_segments_that_compaction_joined() -> None:
    """Else there is one more for ever with every roll."""
    model = written()
    for _ in range(5):
        model.write([1, 2], False, 0, -1)
        again(model)
    kept = snapshot_offsets(model.log.disk, model.log.directory)
    assert set(kept) <= set(model.log.bases) and len(kept) > 1
    model.check()


@pytest.mark.parametrize("clean", [True, False])
def test_snapshots_that_belong_to_no_segment_go_with_the_next_start(clean: bool) -> None:
    model = written()
    again(model)
    log = model.log
    for offset in (2, 5, log.log_end_offset):
        log.producers.end_offset = offset
        write_snapshot(log.disk, log.directory, log.producers, durable=True)
    end = log.log_end_offset
    log.close(clean=clean)
    log = open_log(
        FileCache(log.disk),
        log.directory,
        log.partition,
        log.config,
        LogCheckpoints(clean=clean, recovery_point=end),
    ).log
    kept = snapshot_offsets(log.disk, log.directory)
    assert set(kept) <= {*log.bases, end} and log.snapshots.newest in kept
    assert log.producers.entries


def again(model: Compacted) -> None:
    """A round over everything, later than what the last one wanted to wait for."""
    model.now += 3 * RETENTION_MS
    model.first_dirty = 0
    model.compact(1000, 99)


def markers(model: Compacted) -> list[int]:
    headers = [batch.header for segment in model.log.segments for batch in segment.headers()]
    return [header.producer_id for header in headers if header.is_control and header.record_count]


def test_sequences_of_live_producers_survive_compaction_and_a_crash() -> None:
    model = written()
    model.write([6], False, 0, 2)
    model.end(2, True)
    model.compact(1000, 99)
    before = {p: e.last_sequence for p, e in model.log.producers.entries.items()}
    for name in list(model.device.names):
        if name.endswith(".snapshot"):
            model.disk.remove(name)
    model.die(False)
    assert {p: e.last_sequence for p, e in model.log.producers.entries.items()} == before


def test_a_small_map_takes_several_rounds() -> None:
    model = written()
    ends = []
    for _ in range(40):
        model.compact(1, 99)
        ends.append(model.first_dirty)
    assert ends == sorted(ends) and ends[0] < ends[-1]
    assert [r.offset for r in stored(model) if r.value is not None] == [22, 23, 28]
    model.check()


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power_loss"])
def test_a_round_may_be_interrupted_at_any_call(power_loss: bool) -> None:
    for nth in range(1, 400):
        model = written(nth % 3)
        model.log.roll()
        model.sync()
        model.device.fail_call(nth)
        try:
            model.compact(1000, 99)
        except OSError:
            pass
        hit = model.device.fault_was_hit
        model.device.fail_call(0)
        model.device.process_died(power_loss=power_loss)
        model.recovery_point = min(model.recovery_point, model.log.recovery_point)
        model.open()
        model.check()
        model.compact(1000, 99)
        model.check()
        if not hit:
            return
    raise AssertionError("the round never came through")


def test_a_batch_without_records_lends_no_timestamp_to_the_index() -> None:
    """Kafka's dump tool calls such an entry wrong, and no record answers a look-up of it."""
    model = written()
    model.now -= 1000
    model.write([5, 6, 1, 2, 3, 4], False, 0, -1)
    for _ in range(2):
        again(model)
    empty = 0
    for segment in model.log.segments:
        batches = list(iterate(segment.file().read_at(0, segment.size)))
        empty += sum(batch.header.record_count == 0 for batch in batches)
        timestamps = [record.timestamp for batch in batches for record in records_of(batch)]
        assert segment.max_timestamp == max(timestamps, default=-1)
    assert empty


@pytest.mark.parametrize("start", [0, 1])
def test_a_batch_without_records_is_not_what_has_the_largest_timestamp(start: int) -> None:
    """A follower has such batches in its last segment. Its next start, and a search in the segment where
    the log begins, counted them: asked for the largest timestamp it said that there is none."""
    disk = SimDisk(random.Random(1))
    log = opened(disk)
    for at in range(3):
        log.append_as_leader(
            build_batch([(b"k", b"v")], timestamp_ms=at), leader_epoch=1, wall_ms=at
        )
    empty = bytearray(HEADER_SIZE)
    header = read_header(build_batch([(b"k", b"v")], timestamp_ms=99, producer_id=1))
    write_header(empty, header._replace(base_offset=3, leader_epoch=1, record_count=0))
    log.append_as_follower(empty)
    for _ in range(2):
        log.move_high_watermark(log.log_end_offset)
        log.advance_log_start(start)
        assert log.search_job(None)() == (2, 2)
        log.close()
        disk.process_died()
        log = opened(disk)
        assert log.log_end_offset == 4 and log.active.max_timestamp == 2


def test_a_leader_epoch_that_rotted_is_noticed_behind_compaction_too() -> None:
    """No CRC covers it, and compaction takes it over: the new segment was believed as if this process had
    written all of it, and served."""
    model = Compacted(4)
    for at in range(12):
        model.write([10 + at], False, 0, -1)
    model.log.roll()
    model.write([1], False, 0, -1)
    model.sync()
    second = list(model.log.segments[0].headers())[1]
    model.device.process_died()
    model.device.rot(model.log.segments[0].path, second.position + 14, 3)
    model.open()
    model.compact(1000, 99)
    with pytest.raises(CorruptLogError, match="leader epochs descend"):
        model.check()


@pytest.mark.parametrize("at", [1, 2])
def test_a_log_cut_behind_an_emptied_segment_loses_nothing_by_a_kill(
    at: int,
) -> None:
    """Recovery began one below the cut, took the gap there for a loss, and dropped what was written since."""
    model = Compacted(4)
    for _ in range(3):
        for key in (1, 2, 3, 4):
            model.write([key], False, 0, -1)
        model.log.roll()
    model.compact(1000, 99)
    log = model.log
    assert log.segments[at - 1].find_end() < log.bases[at] < log.log_end_offset
    log.high_watermark = 0
    assert log.truncate_to(log.bases[at])
    for _ in range(2):
        model.recovery_point = model.log.recovery_point
        model.write([5], False, 0, -1)
        end = model.log.log_end_offset
        model.device.process_died()
        model.open()
        assert model.log.log_end_offset == end


def test_a_timestamp_that_does_not_fit_64_bits_keeps_no_log_from_compaction() -> None:
    """Where a topic does not compact yet only headers are looked at."""
    body = bytearray()
    for at, (key, stamp) in enumerate([(b"k", 0), (b"l", (1 << 63) - 1), (b"k", 5)]):
        write_record(body, at, stamp, key, b"v")
    data = bytearray(HEADER_SIZE) + body
    write_header(data, read_header(build_batch([(b"k", b"v")] * 3, timestamp_ms=1_700_000_000_000)))
    view = BatchView(read_header(data), 0, memoryview(data))
    keys = OffsetMap(10)
    note_keys(view, keys, 0)
    keys.end = 3
    outcome = compact_batch(view, keys, TransactionTrail(), CompactionRules(1, 1, {}, 100), None)
    assert outcome.records == 2 and outcome.header.max_timestamp == (1 << 63) - 1
