"""A share run hands out what was acquired, and has a word for every other offset."""

from __future__ import annotations

from barnabas.client.consumers.share_runs import Acknowledge, AcquiredRange, ShareRun
from barnabas.client.consumers.share_session import batches_of
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition

TP = TopicPartition("t", 0)


def batch(first: int, count: int) -> bytes:
    return bytes(
        build_batch(
            [(None, b"%d" % at) for at in range(first, first + count)],
            base_offset=first,
            timestamp_ms=7,
        )
    )


def run_of(data: bytes, *acquired: tuple[int, int, int]) -> ShareRun:
    return ShareRun(TP, [AcquiredRange(*part) for part in acquired], data, 0.0)


def test_only_acquired_records_are_handed_out_with_their_deliveries() -> None:
    run = run_of(batch(0, 4) + batch(4, 4), (1, 2, 1), (5, 5, 3), (7, 7, 1))
    taken = [(r.offset, r.value, r.deliveries) for r in run.take(10)]
    assert taken == [(1, b"1", 1), (2, b"2", 1), (5, b"5", 3), (7, b"7", 1)]
    assert not run.said and not run.rest()


def test_offsets_without_a_record_are_gaps() -> None:
    run = run_of(batch(2, 1) + batch(5, 1), (0, 3, 1), (5, 6, 2), (8, 9, 1))
    assert [record.offset for record in run.take(10)] == [2, 5]
    assert run.said == dict.fromkeys((0, 1, 3, 6, 8, 9), Acknowledge.GAP)


def test_the_rest_is_what_was_not_taken() -> None:
    run = run_of(batch(0, 6), (0, 1, 1), (3, 4, 1))
    assert run.rest() == [0, 1, 3, 4]
    assert len(run.take(1)) == 1 and run.rest() == [1, 3, 4]
    assert len(run.take(2)) == 2 and run.rest() == [4]


def test_records_behind_damaged_bytes_are_released() -> None:
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    run = run_of(batch(0, 2) + bytes(damaged), (0, 3, 1))
    assert [record.offset for record in run.take(10)] == [0, 1]
    assert run.said == {2: Acknowledge.RELEASE, 3: Acknowledge.RELEASE}


def test_neighbours_of_one_kind_are_one_batch() -> None:
    assert batches_of({}) == []
    assert batches_of({3: 1, 1: 1, 2: 1, 7: 2}) == [(1, 3, [1]), (7, 7, [2])]
    assert batches_of({1: 1, 2: 3}) == [(1, 2, [1, 3])]


CLAIMED = 10**12
"""More offsets than any machine can count one by one."""


def test_many_offsets_without_a_record_are_one_range() -> None:
    run = run_of(batch(0, 1), (0, CLAIMED, 1))
    assert [record.offset for record in run.take(10)] == [0]
    gap = int(Acknowledge.GAP)
    assert run.said == {range(1, CLAIMED + 1): gap}
    assert batches_of(run.said | {0: gap}) == [(0, 0, [gap]), (1, CLAIMED, [gap])]


def test_many_records_that_were_not_taken_are_one_range() -> None:
    run = run_of(batch(0, 6), (0, CLAIMED, 1))
    assert len(run.take(2)) == 2 and run.rest() == [range(2, CLAIMED + 1)]


def test_neighbours_of_a_range_are_batches_of_their_own() -> None:
    assert batches_of({range(2, 5): 0, 1: 0, 5: 1, 6: 2}) == [
        (1, 1, [0]), (2, 4, [0]), (5, 6, [1, 2]),
    ]  # fmt: skip


def test_offsets_that_are_said_twice_are_sent_once() -> None:
    assert batches_of({range(10): 0, 3: 1, range(8, 12): 0}) == [(0, 9, [0]), (10, 11, [0])]
