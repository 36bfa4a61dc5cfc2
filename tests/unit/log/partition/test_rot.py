"""One bit of a log's files flips unnoticed: it is reported with file and position, never served."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.sim.world.disk import SimDisk
from tests.model.log.log_model import DIRECTORY, PARTITION, ROOT, LogModel

BATCH_BYTES = len(build_batch([(b"k", b"  0")], timestamp_ms=0))


def written(seed: int) -> LogModel:
    model = LogModel(seed)
    for _ in range(8):
        model.append(2, 60)
    model.new_epoch()
    model.append_idempotent(1, 2, False)
    model.append_idempotent(3, 2, True)
    model.end_transaction(3, False)
    model.sync()
    return model


def flip_one_bit(model: LogModel, rng: random.Random) -> str:
    files = [
        path
        for path in sorted(model.device.names)
        if path.startswith(DIRECTORY + "/") and model.device.file(path).data
    ]
    path = rng.choice(files)
    size = len(model.device.file(path).data)
    model.device.rot(path, rng.randrange(size), rng.randrange(8))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
def test_rot_is_noticed_and_never_served(clean: bool) -> None:
    noticed = 0
    for seed in range(150):
        rng = random.Random(seed)
        model = written(seed)
        if clean:
            model.log.close()
            model.recovery_point = model.log.log_end_offset
        model.device.process_died()
        path = flip_one_bit(model, rng)
        model.reopen(clean=clean)
        truth = [entry.data for entry in model.entries]
        try:
            found = model.content()
        except CorruptLogError as error:
            assert error.path == path and 0 <= error.position < len(model.device.file(path).data)
            noticed += 1
            continue
        # The format's CRC leaves out base offset and leader epoch, so that leaders can assign them.
        assert [data[16:] for data in found] == [data[16:] for data in truth[: len(found)]]
        noticed += len(found) < len(truth)
        if path.endswith((".index", ".timeindex", ".txnindex", ".snapshot", "-checkpoint")):
            assert len(found) == len(truth), path
    assert noticed > 20


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_gone_is_rebuilt(suffix: str, clean: bool) -> None:
    model = written(4)
    model.log.close()
    model.recovery_point = model.log.log_end_offset
    model.device.process_died()
    gone = [path for path in model.device.names if path.endswith(suffix)]
    assert gone
    for path in gone:
        del model.device.names[path]
    model.reopen(clean=clean)
    model.check()
    for path in gone[:-1]:
        assert model.device.file(path).data


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
def test_leader_epochs_that_are_gone_are_rebuilt(clean: bool) -> None:
    """Who knows none cuts its log back to what it knows to be committed, and claims a clean end."""
    model = written(4)
    model.log.close()
    model.recovery_point = model.log.log_end_offset
    known = model.log.epochs.entries()
    assert len(known) > 1
    model.device.process_died()
    del model.device.names[model.log.epochs.path]
    model.reopen(clean=clean)
    assert model.log.epochs.entries() == known
    model.check()


def test_leader_epochs_whose_last_number_was_torn_are_rebuilt() -> None:
    """They are written without a sync: a loss of power left "1 9" of "1 95", below the recovery point, and
    the leader cut its followers' logs there."""
    disk, log = hundred()
    log.flush()
    disk.process_died()
    text = disk.file(log.epochs.path).data
    assert text.endswith(b"\n1 95\n")
    del text[-2:]
    log = opened(disk, recovery_point=99)
    assert log.epochs.entries() == [(0, 0), (1, 95)]


@pytest.mark.slow
def test_a_time_index_that_rotted_hides_no_record() -> None:
    """Except in its last entry, which says how far the segment goes."""
    for seed in range(120):
        rng = random.Random(seed)
        model = written(seed)
        model.log.close()
        model.recovery_point = model.log.log_end_offset
        model.device.process_died()
        files = {
            path: len(model.device.file(path).data) - 12
            for path in sorted(model.device.names)
            if path.endswith(".timeindex") and len(model.device.file(path).data) > 12
        }
        if not files:
            continue
        path = rng.choice(list(files))
        model.device.rot(path, rng.randrange(files[path]), rng.randrange(8))
        model.reopen(clean=True)
        model.check()


def test_a_time_that_names_no_batch_is_found_after_a_crash() -> None:
    """A power loss leaves anything in a time index that was not synced: here a time of the far future, for a
    record that there is."""
    disk, log = hundred()
    log.close()
    disk.process_died()
    (path,) = [path for path in disk.names if path.endswith(".timeindex")]
    disk.file(path).data[:] = struct.pack(">qi", 1 << 60, 3)
    log = opened(disk, recovery_point=99)
    found = log.search_job(None)()
    assert found is not None and found[0] < 1 << 60


@pytest.mark.slow
def test_an_index_whose_last_entry_rotted_never_changes_the_batches() -> None:
    """After a crash the indexes of the last segment that the recovery point vouches for are completed: an
    entry that points behind the end once made the file grow to there, with zeros (seed 105103)."""
    for bit in range(64):
        model = written(4)
        model.recovery_point = model.log.active.base_offset
        model.device.process_died()
        logs = {p: len(model.device.file(p).data) for p in model.device.names if p.endswith(".log")}
        # Written long ago: the segment before the one in which the recovery point is.
        path = max(logs)
        path = max(p for p in logs if p < path).removesuffix(".log") + ".index"
        size = len(model.device.file(path).data)
        assert size >= 8
        model.device.rot(path, size - 8 + bit // 8, bit % 8)
        model.reopen(clean=False)
        assert {p: len(model.device.file(p).data) for p in logs} == logs
        assert model.content() == [entry.data for entry in model.entries]


@pytest.mark.parametrize("byte", range(8, 17))
def test_a_log_whose_last_segment_rotted_at_its_beginning_opens(byte: int) -> None:
    """Its end is found from the last index entry on, and the beginning was looked at for a timestamp: the
    node did not start any more."""
    for bit in range(8):
        disk, log = hundred()
        log.close()
        disk.process_died()
        disk.rot(log.active.path, byte, bit)
        log = opened(disk)
        assert log.log_end_offset == 100
        read = log.read(60, 1)
        assert read is not None and len(read.records) == BATCH_BYTES
        batch = build_batch([(b"k", b"v")], timestamp_ms=1)
        assert log.append_as_leader(batch, leader_epoch=2, wall_ms=1).first_offset == 100


@pytest.mark.parametrize("first", [0, 30, 57])
def test_a_log_with_two_damages_before_the_recovery_point_opens(first: int) -> None:
    """One keeps recovery from finding the recovery point, and entries are rebuilt from the other one on."""
    disk, log = hundred()
    rot_at(disk, log, first)
    rot_at(disk, log, 58)
    log.close()
    disk.process_died()
    log = opened(disk, recovery_point=60)
    assert log.log_end_offset == min(58, log.active.end_before(100)[0])
    read = log.read(45, 1)
    assert read is not None and len(read.records) == BATCH_BYTES


def test_producers_behind_a_rotten_batch_before_the_recovery_point_are_known() -> None:
    """What came behind it was not looked at: their next batches were out of order, or taken twice."""
    disk, log = of_a_producer(100)
    for offset in (20, 21, 50):
        rot_at(disk, log, offset)
    log.close()
    disk.process_died()
    log = opened(disk, recovery_point=90)
    assert log.log_end_offset == 100
    assert log.producers.entries[7].last_sequence == 99
    assert log.append_as_leader(sent_by_a_producer(99), leader_epoch=1, wall_ms=1).duplicate


def test_a_producer_is_not_known_by_an_offset_that_rotted() -> None:
    """A duplicate was answered with an offset behind the log's end (seed 25137)."""
    disk, log = of_a_producer(6)
    segment = log.active
    position = segment.position_of_batch_with(4)
    assert position is not None
    log.close()
    disk.process_died()
    disk.rot(segment.path, position + 3, 2)
    log = opened(disk)
    assert log.log_end_offset == 6
    assert all(batch.last_offset < 6 for batch in log.producers.entries[7].batches)
    assert segment.base_offset in log.snapshots.suspect_segments


# -- a cut that meets rot ----------------------------------------------------------------------------


def hundred(segment_bytes: int = 1 << 20) -> tuple[SimDisk, PartitionLog]:
    """Batches of one record, 95 of them in the first leader epoch; index entries every few batches."""
    disk = SimDisk(random.Random(1))
    log = opened(disk, segment_bytes)
    for at in range(100):
        batch = build_batch([(b"k", b"%3d" % at)], timestamp_ms=at)
        log.append_as_leader(batch, leader_epoch=at // 95, wall_ms=at)
    return disk, log


def of_a_producer(batches: int) -> tuple[SimDisk, PartitionLog]:
    """Batches of one record, all of an idempotent producer."""
    disk = SimDisk(random.Random(1))
    log = opened(disk)
    for at in range(batches):
        log.append_as_leader(sent_by_a_producer(at), leader_epoch=1, wall_ms=at)
    return disk, log


def sent_by_a_producer(at: int) -> bytes:
    return build_batch(
        [(b"k", b"v")], timestamp_ms=at, producer_id=7, producer_epoch=0, base_sequence=at
    )


def opened(
    disk: SimDisk, segment_bytes: int = 1 << 20, recovery_point: int | None = None
) -> PartitionLog:
    """After a clean end, unless there is a `recovery_point`."""
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1000)
    process = disk.open_for_process()
    process.make_dirs(ROOT)
    return open_log(
        FileCache(process),
        DIRECTORY,
        PARTITION,
        config,
        LogCheckpoints(clean=recovery_point is None, recovery_point=recovery_point or 0),
    ).log


def rot_at(disk: SimDisk, log: PartitionLog, offset: int) -> None:
    """The format of the batch at `offset` is another."""
    segment = log.segments[log.segment_index(offset)]
    position = segment.position_of_batch_with(offset)
    assert position is not None
    disk.rot(segment.path, position + 16)


def restarted(disk: SimDisk, log: PartitionLog, high_watermark: int) -> PartitionLog:
    segment_bytes = log.config.segment_bytes
    log.close()
    disk.process_died()
    log = opened(disk, segment_bytes)
    log.move_high_watermark(high_watermark)
    return log


def test_a_cut_behind_rot_that_this_process_wrote_ends_where_it_was_asked_to() -> None:
    disk, log = hundred()
    log.move_high_watermark(95)
    rot_at(disk, log, 90)
    assert log.truncate_to(95)
    assert log.log_end_offset == log.high_watermark == 95
    assert log.size == 95 * BATCH_BYTES
    log.append_as_leader(build_batch([(b"k", b"v")], timestamp_ms=1), leader_epoch=2, wall_ms=1)
    log = restarted(disk, log, 95)
    assert log.log_end_offset == 96
    with pytest.raises(CorruptLogError):
        log.read(90, 1)


@pytest.mark.parametrize("offset", range(80, 90))
def test_a_cut_that_cannot_see_its_end_for_rot_takes_nothing_that_is_committed(offset: int) -> None:
    disk, log = hundred()
    log = restarted(disk, log, 90)
    rot_at(disk, log, offset)
    size = log.size
    try:
        log.truncate_to(95)
    except CorruptLogError as fault:
        position = log.active.position_of_batch_with(offset - 1)
        assert position is not None and fault.position == position + BATCH_BYTES
        assert (log.log_end_offset, log.size, log.last_epoch) == (100, size, 1)
        log.move_high_watermark(offset)  # now nothing behind the rot is committed
        log.truncate_to(95)
        assert log.log_end_offset == offset
    else:  # an index entry is between
        assert log.log_end_offset == 95


def test_a_cut_at_a_segments_beginning_leaves_the_one_before_alone() -> None:
    disk, log = hundred(700)
    cut = log.bases[-2]
    log = restarted(disk, log, cut)
    segment = log.segments[-3]
    size = segment.size
    rot_at(disk, log, cut - 1)
    assert log.truncate_to(cut)
    assert log.log_end_offset == cut and segment.size == size
    with pytest.raises(CorruptLogError):
        log.read(cut - 1, 1)


# -- an index that rots ------------------------------------------------------------------------------


def bits_of_an_index(log: PartitionLog) -> list[tuple[str, int, int]]:
    """(path, byte, bit) of every bit of the offset index of the segment that holds offset 60."""
    index = log.segments[log.segment_index(60)].index
    return [(index.path, at // 8, at % 8) for at in range(index.size() * 8)]


@pytest.mark.slow
@pytest.mark.parametrize("segment_bytes", [1 << 20, 2500])
def test_an_index_that_rotted_hides_no_batch(segment_bytes: int) -> None:
    """An entry that pointed behind the end of the file hid what is there: consumers and followers got
    nothing, or what the next segment begins with."""
    disk, log = hundred(segment_bytes)
    at = log.segments[log.segment_index(60)]
    offsets = range(at.base_offset, log.end_of_segment(log.segment_index(60)))
    bits = bits_of_an_index(log)
    log.close()
    index = bytes(disk.file(at.index.path).data)
    for path, byte, bit in bits:
        disk.process_died()
        disk.file(path).data[:] = index
        disk.rot(path, byte, bit)
        log = opened(disk, segment_bytes)
        for offset in offsets[::3]:
            found = log.read(offset, 1)
            assert found is not None
            assert [batch.header.base_offset for batch in iterate(found.records)] == [offset]
        log.close()


@pytest.mark.slow
def test_an_index_that_rotted_ends_no_log_after_a_crash() -> None:
    """Recovery looks for the recovery point by it, and cut the log where a wrong entry pointed to."""
    disk, log = hundred()
    bits = bits_of_an_index(log)
    log.close()
    size, index = log.size, bytes(disk.file(log.active.index.path).data)
    for path, byte, bit in bits:
        disk.process_died()
        disk.file(path).data[:] = index
        disk.rot(path, byte, bit)
        log = opened(disk, recovery_point=60)
        assert (log.log_end_offset, log.size) == (100, size)
        assert log.active.index.last is not None


@pytest.mark.slow
def test_a_time_index_that_rotted_makes_no_segment_old() -> None:
    """Retention took what is committed, and as a leader's log start that is gone everywhere."""
    first = 1_700_000_000_000
    for bit in range(96):
        disk = SimDisk(random.Random(1))
        log = opened(disk, 700)
        for now in range(first, first + 60):
            batch = build_batch([(b"k", b"value")], timestamp_ms=now)
            log.append_as_leader(batch, leader_epoch=0, wall_ms=now)
        log.close()
        path = log.segments[0].time_index.path
        disk.process_died()
        disk.rot(path, len(disk.file(path).data) - 12 + bit // 8, bit % 8)
        log = opened(disk, 700)
        log.reconfigure(replace(log.config, retention_ms=86_400_000))
        log.move_high_watermark(60)
        assert not log.delete_old_segments(first + 1000)
        if bit % 8 == 0 and bit < 64:
            assert len(log.delete_old_segments(first + 2 * 86_400_000)) > 1


# -- power that goes twice ---------------------------------------------------------------------------


@pytest.mark.slow
def test_batches_that_recovery_dropped_do_not_return_behind_newer_ones() -> None:
    """Batches of one size: those of before stand where the new ones would."""
    dropped = 0
    for seed in range(60):
        disk = SimDisk(random.Random(seed))
        log = opened(disk)
        for epoch in range(3):
            end = log.log_end_offset
            while log.log_end_offset < 300:
                batch = build_batch([(b"k", b"value")], timestamp_ms=1)
                log.append_as_leader(batch, leader_epoch=epoch, wall_ms=1)
            disk.process_died(power_loss=True)
            log = opened(disk, recovery_point=0)
            epochs = [batch.header.leader_epoch for batch in log.active.headers()]
            assert epochs == sorted(epochs)
            dropped += end < log.log_end_offset < 300
    assert dropped > 20


# -- zeros -------------------------------------------------------------------------------------------


def test_batches_that_became_zeros_are_no_room_that_was_given_back() -> None:
    """Recovery ended a full segment before them: their readers got what the next one begins with."""
    disk, log = hundred(2500)
    segment = log.segments[1]
    size, position = segment.size, segment.position_of_batch_with(66)
    assert position is not None
    log.close()
    disk.process_died()
    disk.file(segment.path).data[position:] = bytes(size - position)
    log = opened(disk, 2500, recovery_point=95)
    assert log.log_end_offset == 100
    with pytest.raises(CorruptLogError):
        log.read(66, 1)


def test_an_index_of_garbage_hides_no_batch_of_a_log_without_a_known_end() -> None:
    disk, log = hundred()
    log.close()
    disk.process_died()
    data = disk.file(log.active.index.path).data
    data[-8:] = b"\xff" * 4 + b"\x7f" * 4
    log = opened(disk)
    assert log.log_end_offset == 100


@pytest.mark.parametrize("producer", [-1, 7])
@pytest.mark.parametrize("bit", [*range(2, 12), 20, 30, 31, 40, 62])
def test_a_rotten_base_offset_before_others_ends_the_log_after_a_crash(
    bit: int, producer: int
) -> None:
    """The batch was believed, and the sound one behind it was not: the log ended far behind where it did."""
    disk, log = hundred()
    if producer >= 0:
        for at in range(5):
            log.append_as_leader(
                build_batch(
                    [(b"k", b"v")], timestamp_ms=0, producer_id=producer, producer_epoch=0,
                    base_sequence=at,
                ),
                leader_epoch=1, wall_ms=0,
            )  # fmt: skip
    offset = log.log_end_offset - 3
    position = log.active.position_of_batch_with(offset)
    assert position is not None
    disk.process_died()
    disk.rot(log.active.path, position + 7 - bit // 8, bit % 8)
    assert opened(disk, recovery_point=0).log_end_offset == offset


def test_a_leader_epoch_that_rotted_is_noticed_by_its_reader_after_a_crash() -> None:
    """No CRC covers it, and recovery had checked the rest (seed 650121)."""
    model = LogModel(1)
    model.config = replace(model.config, segment_bytes=600, retention_bytes=-1)
    model.log.reconfigure(model.config)
    while len(model.log.segments) < 3:
        model.append(1, 60)
    path = model.log.segments[0].path
    *_, last = iterate(bytes(model.device.file(path).data))
    model.device.process_died()
    model.device.rot(path, last.position + 12, 5)
    model.recovery_point = 0
    model.reopen()
    with pytest.raises(CorruptLogError, match="leader epochs"):
        model.log.read(last.header.base_offset, 10_000)
