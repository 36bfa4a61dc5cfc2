"""A batch rots in any byte of a segment: the log is mended with what another replica has there."""

from __future__ import annotations

import random

import pytest

from barnabas.log.errors import CorruptLogError
from barnabas.log.file_names import LOG
from barnabas.log.partition import segment_repair
from barnabas.log.partition.segment_repair import SegmentRepair
from barnabas.log.segments.segment import Located, Segment
from tests.model.log.log_model import LogModel


def written(seed: int) -> LogModel:
    model = LogModel(seed)
    for _ in range(10):
        model.append(2, 60)
    model.new_epoch()
    model.append_idempotent(1, 2, False)
    model.append_idempotent(3, 2, True)
    model.end_transaction(3, False)
    for _ in range(6):
        model.append(1, 90)
    model.roll()
    model.append(1, 20)
    model.sync()
    model.log.high_watermark = model.end
    return model


def with_neighbours(seed: int) -> tuple[LogModel, LogModel, Segment, list[Located], int]:
    """A log whose process has died, a sound one, a segment of several batches, and which of them is to rot,
    with another one behind it."""
    model, source = written(seed), written(seed)
    segment = next(s for s in model.log.segments[:-1] if len(list(s.headers())) > 2)
    batches = list(segment.headers())
    model.device.process_died()
    return model, source, segment, batches, random.Random(seed).randrange(len(batches) - 1)


def rot(model: LogModel, rng: random.Random) -> None:
    segments = [segment for segment in model.log.segments[:-1] if segment.size]
    path = rng.choice(segments).path
    model.device.process_died()
    model.device.rot(path, rng.randrange(len(model.device.file(path).data)), rng.randrange(8))
    model.reopen()
    model.log.high_watermark = model.end


def mend(model: LogModel, source: LogModel, fault: CorruptLogError) -> bool:
    """As a broker does it; whether a segment was replaced."""
    log = model.log
    place = segment_repair.location_of(log, fault.path)
    assert place is not None
    damage = segment_repair.examine(place)
    if damage is None:
        return False
    transplant = SegmentRepair(log, place, damage)
    while not transplant.is_complete:
        found = source.log.read(transplant.next_offset, 300)
        assert found is not None and transplant.add(found.records)
    size = segment_repair.rebuild(place, damage, transplant.batches)
    assert segment_repair.swap_in(log, place, size)
    transplant.correct_epochs()
    return True


@pytest.mark.slow
def test_a_log_with_any_rotten_bit_is_repaired_and_never_shorter() -> None:
    mended = 0
    for seed in range(240):
        rng = random.Random(seed)
        model, source = written(seed), written(seed)
        rot(model, rng)
        end = model.log.log_end_offset
        for _ in range(3):
            try:
                found = model.content()
                break
            except CorruptLogError as fault:
                assert mend(model, source, fault)
                mended += 1
        assert model.log.log_end_offset == end
        # The CRC leaves out the leader epoch: what cannot be noticed is the only thing that may differ.
        assert [data[:12] + data[16:] for data in found] == [
            entry.data[:12] + entry.data[16:] for entry in model.entries
        ]
        model.sync()
        model.device.process_died(power_loss=True)
        model.reopen()
        assert model.content() == found
    assert mended > 80


@pytest.mark.slow
def test_a_leader_epoch_that_rotted_is_noticed_beside_its_neighbours_and_mended() -> None:
    """No CRC covers it. A follower would take it over and part from its leader there, again and again."""
    for seed in range(20):
        model, source, segment, batches, at = with_neighbours(seed)
        model.device.file(segment.path).data[batches[at].position + 15] ^= 0x10
        model.reopen()
        model.log.high_watermark = model.end
        with pytest.raises(CorruptLogError, match="leader epochs descend") as fault:
            model.content()
        assert mend(model, source, fault.value)
        assert model.content() == [entry.data for entry in model.entries]


def test_a_rotten_leader_epoch_at_a_segments_end_is_detected_and_repaired() -> None:
    """The next segment begins in a lower one, and so say the known epochs."""
    model, source = written(3), written(3)
    segment, following = model.log.segments[0], model.log.segments[1]
    last = list(segment.headers())[-1]
    model.device.process_died()
    model.device.rot(segment.path, last.position + 15, 4)
    model.reopen()
    model.log.high_watermark = model.end
    with pytest.raises(CorruptLogError, match="leader epochs descend") as fault:
        model.content()
    assert mend(model, source, fault.value)
    assert model.content() == [entry.data for entry in model.entries]
    # Of the first batch behind it that fell no other file is accused.
    model.device.process_died()
    model.device.file(following.path).data[15] = 0
    model.reopen()
    model.log.high_watermark = model.end
    assert model.log.read(segment.base_offset, 1 << 20) is not None


def test_recovery_does_not_believe_an_outlying_leader_epoch() -> None:
    """Else the leader knows nothing of the last epoch that it is asked for, at every fetch."""
    model = written(3)
    segment = max(model.log.segments, key=lambda s: len(list(s.headers())))
    known, batch = model.log.epochs.entries(), list(segment.headers())[1]
    model.device.process_died()
    model.device.rot(segment.path, batch.position + 12, 2)
    model.recovery_point = 0
    model.reopen()
    assert model.log.epochs.entries() == known


@pytest.mark.slow
def test_two_rotten_neighbours_are_both_repaired() -> None:
    """What reached into a damaged batch stayed as it was, with another offset (seed 602203)."""
    for seed in range(20):
        model, source, segment, batches, first = with_neighbours(seed)
        data = model.device.file(segment.path).data
        data[batches[first].position + 7] += 1
        data[batches[first + 1].position + batches[first + 1].header.size - 1] ^= 1
        model.reopen()
        model.log.high_watermark = model.end
        with pytest.raises(CorruptLogError) as fault:
            model.content()
        assert mend(model, source, fault.value)
        assert model.content() == [entry.data for entry in model.entries]


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_crash_at_any_disk_call_of_a_repair_leaves_a_sound_or_damaged_log(
    power_loss: bool,
) -> None:
    for nth in range(1, 200):
        model, source = written(5), written(5)
        segment = next(s for s in model.log.segments if s.size > 300)
        model.device.process_died()
        model.device.rot(segment.path, 200)
        model.reopen()
        model.log.high_watermark = model.end
        with pytest.raises(CorruptLogError) as caught:
            model.content()
        model.device.fail_call(nth, for_good=True)
        try:
            mend(model, source, caught.value)
        except OSError:
            pass
        hit = model.device.fault_was_hit
        model.device.fail_call(0)
        model.device.process_died(power_loss=power_loss)
        model.reopen()
        assert model.log.log_end_offset == model.end
        truth = [entry.data for entry in model.entries]
        try:
            assert model.content() == truth
        except CorruptLogError as fault:
            assert fault.path == segment.path
            assert hit or power_loss  # the new names are durable with the next sync
        if not hit:
            return
    raise AssertionError("the mending never came through")


def test_records_that_do_not_fit_the_gap_are_refused() -> None:
    model, source = written(7), written(7)
    path = next(s for s in model.log.segments if s.size > 300).path
    model.device.process_died()
    model.device.rot(path, 200)
    model.reopen()
    with pytest.raises(CorruptLogError) as caught:
        model.content()
    place = segment_repair.location_of(model.log, caught.value.path)
    assert place is not None and place.directory + "/" in path and path.endswith(LOG)
    damage = segment_repair.examine(place)
    assert damage is not None
    found = source.log.read(damage.first_offset, 1)
    assert found is not None
    right = bytes(found.records)
    other_epoch = right[:12] + (9).to_bytes(4, "big") + right[16:]
    for wrong, why in [
        (right[:-1] + bytes([right[-1] ^ 1]), "corrupt"),
        (other_epoch, "leader epoch 9"),
        (source.entries[-1].data, "are missing"),
    ]:
        with pytest.raises(ValueError, match=why):
            SegmentRepair(model.log, place, damage).add(wrong)
    assert not SegmentRepair(model.log, place, damage).add(b"")
    assert SegmentRepair(model.log, place, damage).add(right)


def test_a_transaction_whose_end_rotted_is_over_once_that_is_mended() -> None:
    """No reader could continue behind its beginning until the next start."""
    model, source = LogModel(3), LogModel(3)
    for each in (model, source):
        each.append_idempotent(3, 2, True)
        each.end_transaction(3, False)
        for _ in range(4):
            each.append(1, 20)
        each.sync()
    segment = model.log.segments[model.log.segment_index(2)]
    position = segment.position_of_batch_with(2)
    assert position is not None
    model.device.process_died()
    model.device.rot(segment.path, position + 16)
    model.reopen()
    model.log.high_watermark = model.end
    assert model.log.last_stable_offset == 0
    with pytest.raises(CorruptLogError) as fault:
        model.log.read(2, 1)
    assert mend(model, source, fault.value)
    assert model.log.last_stable_offset == model.end
    model.check()


def test_an_epoch_learned_from_a_rotten_batch_is_corrected_with_it() -> None:
    """Which of the two rotted, the one above or the one below, only another replica can tell (seed 8799)."""
    model, source = LogModel(1), LogModel(1)
    for each in (model, source):
        for _ in range(4):
            each.append(1, 20)
        each.epoch = 1
        for _ in range(3):
            each.append(1, 20)
        each.roll()
        each.append(1, 20)
    entries = model.log.epochs.entries()
    segment = model.log.segments[0]
    *_, third, _ = [batch for batch in segment.headers() if not batch.header.leader_epoch]
    model.device.process_died()
    model.device.rot(segment.path, third.position + 15, 0)
    model.reopen()
    model.log.high_watermark = model.end
    assert model.log.epochs.entries() == [(0, 0), (1, 2)]
    with pytest.raises(CorruptLogError) as fault:
        model.log.read(0, 10_000)
    assert mend(model, source, fault.value)
    assert model.log.epochs.entries() == entries == [(0, 0), (1, 4)]
    model.check()
