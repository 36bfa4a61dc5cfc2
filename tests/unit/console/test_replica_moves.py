"""Bytes that replicas on their way still lack, by broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.cli.measures.partition_figures import sizes_in
from barnabas.cli.reassignment.reassignment_progress import Ongoing
from barnabas.console.cluster_views.replica_moves import lacking_of
from barnabas.types import TopicPartition

TP = TopicPartition("t", 0)


def answer(*replicas: tuple[int, bool]) -> Any:
    """A broker's answer with replicas of `TP`: their size, and whether it is a copy for another directory."""
    parts = [
        SimpleNamespace(partition_index=0, partition_size=size, is_future_key=future)
        for size, future in replicas
    ]
    topic = SimpleNamespace(name="t", partitions=parts)
    return SimpleNamespace(results=[SimpleNamespace(topics=[topic])])


def test_a_replica_lacks_what_its_leader_has_more() -> None:
    move = Ongoing(TP, 1, [1, 2, 3], [2, 3], [1])
    sizes = sizes_in({1: answer((100, False)), 2: answer((30, False)), 3: ValueError("silent")})
    assert lacking_of(move, sizes) == {2: 70, 3: 100}


def test_a_replica_that_has_caught_up_or_is_larger_lacks_nothing() -> None:
    move = Ongoing(TP, 1, [1, 2, 3], [2, 3], [1], caught_up=[3])
    sizes = sizes_in({1: answer((100, False)), 2: answer((130, False)), 3: answer((1, False))})
    assert lacking_of(move, sizes) == {2: 0, 3: 0}


def test_a_copy_for_another_directory_counts_for_no_size() -> None:
    assert sizes_in({1: answer((100, False), (7, True))}) == {(1, TP): 100}
