"""A log that closed cleanly and is shorter when it opens: no start vouches for it, however it came to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from crc32c import crc32c

from barnabas.log import checkpoints
from barnabas.log.directories import segment_manifest
from barnabas.log.directories.entry_names import CLEAN_SHUTDOWN_FILE
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_names import DELETED, LOG
from barnabas.log.partition import segment_repair
from barnabas.record.batch import iterate
from barnabas.types import TopicPartition
from tests.unit.log.directories.test_directories import TOPIC_ID, fill
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

T0 = TopicPartition("t", 0)
HERE = f"{PATHS[0]}/{T0}"


class Closed:
    """A log of several segments, the last of which has several batches, in a directory with a proof."""

    def __init__(self) -> None:
        self.world = DirectoriesWorld()
        log = self.world.logs.create(T0, TOPIC_ID, self.world.logs.directories[0].directory_id)
        fill(log, 60)
        assert len(log.segments) > 1
        self.end, self.last, self.size = log.log_end_offset, log.active.path, log.active.size
        self.last_batch = log.active.end_before(self.end - 1)[1]
        assert 0 < self.last_batch < self.size
        self.world.stop()

    def shorten(self, how: str) -> None:
        """Behind the back of everybody."""
        names = self.world.disk.names
        if how == "a whole log":
            for path in [HERE, *self.world.disk.below(HERE)]:
                del names[path]
        elif how == "a segment":
            for path in [path for path in names if path.startswith(self.last.removesuffix(LOG))]:
                del names[path]
        elif how == "a segment's batches":
            del names[self.last]
        else:
            left = {"a torn batch": self.size - 5, "a whole batch": self.last_batch}
            self.world.disk.file(self.last).truncate(left.get(how, 0))


@pytest.mark.parametrize(
    "how",
    [
        "a torn batch",
        "a whole batch",
        "the last batches",
        "a segment's batches",
        "a segment",
        "a whole log",
    ],
)
@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_missing_segment_is_reported_with_every_start(how: str, ending: str) -> None:
    closed = Closed()
    world = closed.world
    closed.shorten(how)
    world.start(writing=False)
    found = world.logs.logs.get(T0)
    assert found is None or found.log_end_offset < closed.end
    assert world.logs.previous_broker_epoch == -1
    # The controller was not there: this process ends before it has reported it.
    assert f"{PATHS[0]}/{CLEAN_SHUTDOWN_FILE}" not in world.disk.names
    getattr(world, ending)()
    world.start(writing=False)
    assert world.logs.previous_broker_epoch == -1


def test_a_log_behind_a_segment_that_is_gone_outlives_kills() -> None:
    """It has begun a new segment and written nothing: recovery does not go back to the gap and cut there."""
    world = DirectoriesWorld()
    log = world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    fill(log, 60)
    end, last = log.log_end_offset, log.active.path
    log.truncate_to(end - 1)  # what follows is written to a new file
    world.stop()
    for path in [path for path in world.disk.below(HERE) if path.startswith(last[: -len(LOG)])]:
        del world.disk.names[path]
    for _ in range(3):
        world.start()
        assert world.logs.logs[T0].log_end_offset == end - 1
        world.kill()


@pytest.mark.parametrize("what", ["batches", "all files"])
@pytest.mark.parametrize("at", [0, 1, 3, -2])
def test_batches_that_are_gone_are_reported_with_every_check(at: int, what: str) -> None:
    """Readers went on behind the gap."""
    if at == 0 and what == "batches":
        return  # retention may have been about to take the indexes, too
    closed = Closed()
    world = closed.world
    logs = sorted(path for path in world.disk.below(HERE) if path.endswith(LOG))
    base, end = (int(path.rpartition("/")[2][:20]) for path in (logs[at], logs[at:][1]))
    stem = logs[at].removesuffix("" if what == "batches" else LOG)
    for path in [path for path in world.disk.below(HERE) if path.startswith(stem)]:
        del world.disk.names[path]
    for ending in ("kill", "stop", "stop"):
        world.start()
        assert world.logs.previous_broker_epoch != 5
        log = world.logs.logs[T0]
        log.move_high_watermark(closed.end)
        for offset in range(closed.end):
            if base <= offset < end:
                with pytest.raises(CorruptLogError, match=logs[at]):
                    log.read(offset, 1)
            else:
                read = log.read(offset, 1)
                assert read is not None
                assert [b.header.base_offset for b in iterate(read.records)] == [offset]
        place = segment_repair.location_of(log, logs[at])
        assert place is not None
        assert segment_repair.examine(place) == segment_repair.Damage(0, base, 1, end, {})
        (world.kill if ending == "kill" else lambda: world.stop(broker_epoch=6))()


def test_segments_compacted_before_a_clean_end_hide_no_loss_after_it() -> None:
    """Its files wait for their removal under other names (seed 303838)."""
    closed = Closed()
    world = closed.world
    lost = world.logs.logs[T0].segments[0].path
    names = world.disk.names
    names[lost + DELETED] = names[lost]
    for path in [p for p in world.disk.below(HERE) if p.startswith(lost.removesuffix(LOG))]:
        if not path.endswith(DELETED):
            del names[path]
    world.start()
    with pytest.raises(CorruptLogError, match=lost):
        world.logs.logs[T0].read(0, 1)


def forged(data: bytes) -> bytes:
    """Another program has closed the directory since."""
    text = data[:-9].replace(b"\n5\n", b"\n4\n", 1)
    return text + b"%08x\n" % crc32c(text)


@pytest.mark.parametrize(
    "change", [lambda data: data.replace(b"t 0 0 ", b"t 0 1 "), lambda data: data[:-3], forged]
)
def test_an_unproven_manifest_says_nothing_of_segments(change: Callable[[bytes], bytes]) -> None:
    closed = Closed()
    world = closed.world
    file = world.disk.file(f"{PATHS[0]}/{segment_manifest.NAME}")
    file.data[:] = change(bytes(file.data))
    logs = sorted(path for path in world.disk.below(HERE) if path.endswith(LOG))
    stem = logs[1].removesuffix(LOG)
    for path in [path for path in world.disk.below(HERE) if path.startswith(stem)]:
        del world.disk.names[path]
    world.start(writing=False)
    assert world.logs.previous_broker_epoch == 5 and logs[1] not in world.disk.names


def test_the_segment_manifest_of_a_clean_end_holds_for_one_start() -> None:
    closed = Closed()
    world = closed.world
    for ending in ("kill", "stop"):
        world.start(writing=False)
        assert f"{PATHS[0]}/{segment_manifest.NAME}" not in world.disk.names
        log = world.logs.logs[T0]
        log.high_watermark = log.log_end_offset
        log.advance_log_start(log.segments[1].base_offset)
        assert log.delete_old_segments(0)
        getattr(world, ending)()
    world.start(writing=False)
    assert world.logs.previous_broker_epoch == 5


def test_a_segment_that_compaction_just_replaced_is_not_reported_as_lost() -> None:
    """It runs before the broker is in the cluster, while the proof of the clean end holds."""
    closed = Closed()
    world = closed.world
    world.start(writing=False)
    path = world.logs.logs[T0].segments[1].path
    world.process.disk.rename(path, path + DELETED)
    world.kill()
    world.start(writing=False)
    assert path not in world.disk.names
    assert world.logs.previous_broker_epoch == 5


def test_a_whole_log_is_proven_with_every_start() -> None:
    closed = Closed()
    world = closed.world
    for _ in range(2):
        world.start(writing=False)
        assert world.logs.previous_broker_epoch == 5
        assert world.logs.logs[T0].log_end_offset == closed.end
        world.kill()


@pytest.mark.slow
@pytest.mark.parametrize("byte", [*range(8), *range(23, 27)])
def test_a_log_longer_than_at_its_close_is_truncated_and_reported(byte: int) -> None:
    """No CRC covers a batch's base offset, and no start checks that of its last offset: the log went on at
    an offset far behind, as a leader too."""
    for bit in range(8):
        closed = Closed()
        world = closed.world
        world.disk.rot(closed.last, closed.last_batch + byte, bit)
        world.start(writing=False)
        log = world.logs.logs[T0]
        assert log.log_end_offset == closed.end - 1
        assert log.active.size == closed.last_batch
        assert world.logs.previous_broker_epoch == -1


def test_a_checkpoint_that_rotted_takes_nothing_of_a_log() -> None:
    closed = Closed()
    world = closed.world
    path = f"{PATHS[0]}/recovery-point-offset-checkpoint"
    text = bytes(world.disk.file(path).data)
    assert text.endswith(b" 60\n")
    world.disk.file(path).data[:] = text.replace(b" 60\n", b" 58\n")
    world.start(writing=False)
    assert world.logs.logs[T0].log_end_offset == closed.end


@pytest.mark.parametrize("interval", [300, 4096], ids=["indexed", "not indexed"])
@pytest.mark.parametrize("is_known", [True, False], ids=["written by this process", "found"])
@pytest.mark.parametrize("at", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("left", [0.0, 0.5, 0.99])
def test_a_file_that_gets_shorter_under_a_running_process_is_reported(
    left: float, at: int, is_known: bool, interval: int
) -> None:
    """Readers went on behind it as if nothing had stood there, got a torn batch for ever, or a fault."""
    world = DirectoriesWorld()
    world.config = replace(world.config, index_interval_bytes=interval)
    log = world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    fill(log, 30)
    if not is_known:
        world.stop()
        world.start()
        log = world.logs.logs[T0]
        log.move_high_watermark(log.log_end_offset)
    segment = log.segments[at]
    file = world.disk.file(segment.path)
    file.truncate(int(len(file.data) * left))
    offset = 0
    with pytest.raises(CorruptLogError, match="shorter") as error:
        while offset < log.log_end_offset:
            read = log.read(offset, 1)
            assert read is not None
            (batch,) = iterate(read.records, crc=True)
            assert batch.header.base_offset == offset
            offset = batch.header.next_offset
    assert error.value.path == segment.path
    assert segment.base_offset <= offset < 30 and (left == 0) == (offset == segment.base_offset)


@pytest.mark.parametrize("ending", ["power", "stop"])
def test_a_log_that_ends_before_its_start_continues_there(ending: str) -> None:
    """Consumers stand there, for its last records were deleted: their offsets come to no others."""
    world = DirectoriesWorld()
    log = world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    fill(log, 8)
    log.flush()
    world.logs.checkpoint(checkpoints.RECOVERY_POINT)
    fill(log, 2)
    log.move_high_watermark(10)
    log.advance_log_start(10)
    world.logs.checkpoint(checkpoints.LOG_START)
    world.run_ms(100)
    if ending == "power":
        world.kill(power_loss=True)
    else:
        world.stop()
        world.disk.file(log.active.path).truncate(0)
    for _ in range(2):
        world.start()
        log = world.logs.logs[T0]
        assert (log.log_start_offset, log.log_end_offset) == (10, 10)
        assert log.high_watermark == 10 and world.logs.previous_broker_epoch == -1
        world.kill()
    world.start()
    log = world.logs.logs[T0]
    fill(log, 1)
    assert (log.log_end_offset, log.epochs.entries()) == (11, [(1, 10)])


def test_a_clean_end_before_the_registration_leaves_a_proof_too() -> None:
    """Its proof names no epoch (seed 200705)."""
    world = Closed().world
    world.start()
    world.stop(broker_epoch=-1)
    logs = sorted(path for path in world.disk.below(HERE) if path.endswith(LOG))
    stem = logs[1].removesuffix(LOG)
    for path in [path for path in world.disk.below(HERE) if path.startswith(stem)]:
        del world.disk.names[path]
    world.start(writing=False)
    assert world.logs.logs[T0].fragments() == [logs[1]]
