"""What is committed is read the same by the short way for lone records and by the long one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from barnabas.ports import Disk
from barnabas.raft.core import batches
from barnabas.raft.core.batches import committed_batches, data_batch
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.core.messages import FetchResponse, ReadLog
from barnabas.raft.runtime.applier import Applier
from barnabas.raft.runtime.response_reader import ResponseReader
from barnabas.raft.state_machine import CommittedBatch, StateMachine
from barnabas.record.batch import HEADER_SIZE, CorruptBatchError
from barnabas.wire.errors import ErrorCode

WALL_MS = 1_750_000_000_000


def read(data: bytes) -> object:
    try:
        return [
            (one.base_offset, list(map(bytes, one.values)))
            for one in committed_batches(data, 0, 10**6, check_crc=False)[0]
        ]
    except CorruptBatchError as error:
        return error.why


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_lone_records_are_read_as_all_others(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    short, taken = batches._only_value, 0
    for _ in range(3_000):
        size = rng.choice((0, 1, 2, 3, 55, 62, 63, 64, 100, 120, 8_180, 8_192, 20_000))
        data = bytearray(data_batch([rng.randbytes(size)], 7, 1, WALL_MS))
        if (
            rng.random() < 0.7
        ):  # the CRC was checked before; what is read here may still be anything
            at = HEADER_SIZE + rng.randrange(min(12, len(data) - HEADER_SIZE))
            data[rng.choice((at, len(data) - 1))] = rng.randrange(256)
        found = read(bytes(data))
        taken += short(memoryview(data), HEADER_SIZE, len(data)) is not None
        with monkeypatch.context() as patch:
            patch.setattr(batches, "_only_value", lambda *_: None)
            assert read(bytes(data)) == found
    assert taken > 800


class Bytes:
    """A log of one run."""

    def __init__(self, data: bytes, is_kept: bool) -> None:
        self.data = data
        self.is_kept = is_kept

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        return self.data

    def read_kept(self, offset: int, max_bytes: int, up_to: int) -> bytes | None:
        return self.data if self.is_kept else None


class Values:
    """A state machine that keeps what it is given."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        self.values += [bytes(value) for batch in batches for value in batch.values]

    def on_leader_change(self, *_: int) -> None: ...


@pytest.mark.parametrize("at", range(16))
def test_offsets_lengths_and_epochs_that_rot_under_a_running_node_are_damage(at: int) -> None:
    """No CRC covers them (seeds 200393, 602749)."""
    first, data = (bytearray(data_batch([b"sound"], offset, 1, WALL_MS)) for offset in (0, 1))
    data[at] ^= 1
    machine, errors, turns = Values(), list[Exception](), list[Callable[[], None]]()
    log: Any = Bytes(bytes(first + data), False)
    shape = LogMetadata(0, 2, [(1, 0)])
    applier = Applier(log, shape, cast(StateMachine, machine), 1, turns.append, errors.append)
    applier.on_commit(2)
    applier.run()
    while (
        turns and not errors
    ):  # what seems to end behind the high watermark is left for the next slice
        log.data = bytes(data)
        turns.pop()()
    assert len(machine.values) <= 1 and applier.applied_offset <= 1
    assert {type(error) for error in errors} == {CorruptBatchError}


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_batch_that_rotted_under_a_running_node_is_not_applied(is_kept: bool) -> None:
    data = bytearray(data_batch([b"sound"], 0, 1, WALL_MS))
    if not is_kept:  # of what is in memory nothing rots
        data[data.index(b"sound")] ^= 1
    machine, errors = Values(), list[Exception]()
    log: Any = Bytes(bytes(data), is_kept)
    shape = LogMetadata(0, 1, [(1, 0)])
    applier = Applier(log, shape, cast(StateMachine, machine), 1, lambda _: None, errors.append)
    applier.on_commit(1)
    applier.run()
    assert machine.values == ([b"sound"] if is_kept else [])
    assert applier.applied_offset == int(is_kept) and len(errors) == int(not is_kept)


@pytest.mark.parametrize("at", [7, 15])
def test_an_offset_or_an_epoch_that_rotted_is_not_handed_on(at: int) -> None:
    """No CRC covers them (seed 602749)."""
    first, data = (bytearray(data_batch([b"sound"], offset, 1, WALL_MS)) for offset in (0, 1))
    damaged = list[int]()
    for rotten in (False, True):
        if rotten:
            data[at] ^= 4
        log: Any = Bytes(bytes(first + data), False)
        reader = ResponseReader(
            cast(Disk, None), "", log, LogMetadata(0, 2, [(1, 0)]), lambda from_, _: damaged.append(from_),
            lambda _: None,
        )  # fmt: skip
        answer = FetchResponse(ErrorCode.NONE, 1, 1, None, records=ReadLog(0, 2, 10_000))
        found = reader.resolved(answer)
        assert isinstance(found, FetchResponse)
        assert bytes(cast(bytes, found.records)) == (b"" if rotten else first + data)
    assert damaged == [1]
