"""Partitions are grouped by topic as messages nest them."""

from __future__ import annotations

from barnabas.types import TopicPartition, by_topic


def test_topics_and_partitions_keep_the_order_in_which_they_are_named() -> None:
    named = [TopicPartition("b", 2), TopicPartition("a", 7), TopicPartition("b", 0)]

    topics = by_topic(named)

    assert list(topics.items()) == [("b", [2, 0]), ("a", [7])]


def test_a_topic_may_be_an_id_and_its_parts_any_elements() -> None:
    assert by_topic((bytes([n % 2]), str(n)) for n in range(4)) == {
        b"\0": ["0", "2"],
        b"\1": ["1", "3"],
    }


def test_no_partitions_make_no_topics() -> None:
    assert by_topic([]) == {}
