"""Sizes and rates of partitions, made of what brokers answer."""

from __future__ import annotations

import pytest

from barnabas.cli.measures.partition_figures import Look, PartitionFigures, Rate, rates_between
from barnabas.cli.measures.topic_figures import figures_of_topic, problems_of
from barnabas.cli.measures.units import bytes_text, rate_text, seconds_text
from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata
from barnabas.types import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def test_a_log_that_grows_is_written_as_fast_as_it_grows() -> None:
    first = Look(0.0, {(1, TP): 1_000}, ends={TP: 10})
    second = Look(2.0, {(1, TP): 3_000}, starts={TP: 0}, ends={TP: 30})
    assert rates_between(first, second, {TP: 1}) == {TP: Rate(10.0, 1_000.0)}


def test_a_log_that_retention_shortens_is_written_all_the_same() -> None:
    first = Look(0.0, {(1, TP): 9_000}, ends={TP: 90})
    second = Look(1.0, {(1, TP): 1_000}, starts={TP: 90}, ends={TP: 100})
    assert rates_between(first, second, {TP: 1}) == {TP: Rate(10.0, 1_000.0)}


def test_a_partition_that_was_recreated_has_no_negative_rate() -> None:
    first = Look(0.0, {(1, TP): 9_000}, ends={TP: 90})
    second = Look(1.0, {(1, TP): 0}, starts={TP: 0}, ends={TP: 0})
    assert rates_between(first, second, {TP: 1}) == {TP: Rate(0.0, 0.0)}


def test_a_topic_has_the_sums_of_what_is_known_of_its_partitions() -> None:
    partitions = {
        0: PartitionMetadata(leader=1, replicas=[1, 2], isr=[1, 2]),
        1: PartitionMetadata(leader=-1, replicas=[2], isr=[2]),
    }
    view = TopicMetadata("t", partitions=partitions)
    look = Look(0.0, {(1, TP): 10, (2, TP): 8, (2, OTHER): 5}, starts={TP: 3}, ends={TP: 9})
    figures = figures_of_topic(view, PartitionFigures(look, {TP: Rate(1.5, 20.0)}))
    assert figures == {
        "records": 6, "leader_bytes": 10, "replica_bytes": 23, "records_per_s": 1.5, "bytes_per_s": 20,
    }  # fmt: skip
    assert set(figures_of_topic(view, None).values()) == {None}


@pytest.mark.parametrize(
    ("isr", "leader", "min_isr", "problems"),
    [
        ([1, 2, 3], 1, 2, []),
        ([1, 2], 1, 2, ["under_replicated", "at_min_isr"]),
        ([1], 1, 2, ["under_replicated", "under_min_isr"]),
        ([1], -1, None, ["under_replicated", "offline"]),
    ],
)
def test_a_partitions_problems_follow_from_its_isr(
    isr: list[int], leader: int, min_isr: int | None, problems: list[str]
) -> None:
    at = PartitionMetadata(leader=leader, replicas=[1, 2, 3], isr=isr)
    assert problems_of(at, min_isr) == problems


def test_figures_are_read_with_units() -> None:
    assert [bytes_text(n) for n in (None, 0, 999, 1_000, 12_345_678, 5 * 10**18)] == [
        "-", "0 B", "999 B", "1 kB", "12.3 MB", "5e+03 PB",
    ]  # fmt: skip
    assert [seconds_text(s) for s in (None, 0, 3.42, 59, 302, 25_920, 788_400)] == [
        "-", "0 s", "3.4 s", "59 s", "5 min 2 s", "7 h 12 min", "9 d 3 h",
    ]  # fmt: skip
    assert [rate_text(n) for n in (None, 0, 1.25, 4711.2)] == ["-", "0", "1.2", "4711"]
