"""Offsets JSON, the share of each partition in a trigger, and the cut into tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.offsets import (
    Range,
    cut_ranges,
    from_json,
    limit_rows,
    pack_ranges,
    parse_assignment,
    parse_offsets,
    to_json,
)
from barnabas.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_json_is_sparks() -> None:
    assert to_json({B0: 7, A1: 2, A0: 1}) == {"a": {"0": 1, "1": 2}, "b": {"0": 7}}
    assert from_json(to_json({B0: 7, A1: 2})) == {B0: 7, A1: 2}
    assert parse_offsets("x", '{"a": {"0": -2}}') == {A0: -2}
    assert parse_assignment("assign", '{"b": [0], "a": [1, 0]}') == (A0, A1, B0)


@pytest.mark.parametrize("text", ["", "[]", "7", '{"a": 1}', '{"a": {"x": 1}}', '{"a": {"0": []}}'])
def test_other_json_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        parse_offsets("startingOffsets", text)


waiting = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


@pytest.mark.slow
@given(waiting, st.integers(1, 20_000))
def test_a_limit_is_shared_and_starves_no_partition(sizes: list[int], rows_max: int) -> None:
    start = {TopicPartition("t", n): 100 * n for n in range(len(sizes))}
    latest = {each: start[each] + size for each, size in zip(start, sizes, strict=True)}
    ends = limit_rows(start, latest, rows_max)
    taken = {each: ends[each] - start[each] for each in start}
    assert all(0 <= taken[each] <= size for each, size in zip(start, sizes, strict=True))
    assert sum(taken.values()) <= max(rows_max, 0) + len(sizes)
    if rows_max >= sum(sizes):
        assert ends == latest
    else:
        assert all(taken[each] for each, size in zip(start, sizes, strict=True) if size)


@pytest.mark.slow
@given(waiting, st.none() | st.integers(1, 40), st.none() | st.integers(1, 5_000))
def test_cut_ranges_cover_each_offset_once(
    sizes: list[int], partitions_min: int | None, rows_max: int | None
) -> None:
    ranges = [Range("t", n, 5, 5 + size) for n, size in enumerate(sizes)]
    pieces = cut_ranges(ranges, partitions_min=partitions_min, rows_max=rows_max)
    for whole in ranges:
        mine = [each for each in pieces if each.partition == whole.partition]
        edges = [each.start for each in mine] + ([mine[-1].end] if mine else [])
        assert edges == sorted(edges)
        assert [each.end for each in mine][:-1] == [each.start for each in mine][1:]
        assert sum(each.size for each in mine) == whole.size
    assert all(each.size > 0 for each in pieces)
    if rows_max is not None:
        assert all(each.size <= rows_max for each in pieces)
    if partitions_min is not None:
        assert len(pieces) >= min(partitions_min, sum(sizes))


def test_tasks_are_even_and_as_many_as_asked_for() -> None:
    ranges = [Range("t", 0, 0, 1_000), Range("t", 1, 0, 10), Range("t", 2, 0, 300)]
    pieces = cut_ranges(ranges, partitions_min=8)
    assert [(each.partition, each.size) for each in pieces] == [
        *[(0, size) for size in (200, 200, 200, 200, 200)],
        (1, 10),
        (2, 150),
        (2, 150),
    ]


def test_small_ranges_share_tasks() -> None:
    few = [Range("t", each, 0, 20, None) for each in range(16)]
    assert pack_ranges(few) == [tuple(few)]
    middling = [Range("t", each, 0, 2_000, None) for each in range(6)]
    assert [len(each) for each in pack_ranges(middling)] == [2, 2, 2]
    large_few = [Range("t", each, 0, 4_097, None) for each in range(6)]
    assert pack_ranges(large_few) == [(each,) for each in large_few]
    many = [Range("t", each, 0, 20, None) for each in range(500)]
    assert [len(each) for each in pack_ranges(many)] == [500]
    assert [len(each) for each in pack_ranges(many, rows_max=2000)] == [100] * 5
    large = Range("t", 7, 0, 10**6, None)
    mixed = [*many[:7], large, *many[8:20]]
    assert pack_ranges(mixed) == [tuple(many[:7]), (large,), tuple(many[8:20])]
