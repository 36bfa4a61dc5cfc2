"""One bit of a log's files flips while nobody looks: it is told with file and position, never served."""

from __future__ import annotations

import random

import pytest

from barnabas.log.errors import CorruptLogError
from tests.model.log.log_model import DIRECTORY, LogModel


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
def test_an_index_that_is_gone_is_made_anew(suffix: str, clean: bool) -> None:
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
