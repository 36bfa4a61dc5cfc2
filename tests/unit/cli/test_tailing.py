"""Following many topics: the order of what is shown, prefixes, and partitions that come later."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.records import tailing
from barnabas.cli.records.record_filter import RecordFilter
from barnabas.cli.records.tailing import FollowedTopics, TailPrinter, by_time
from barnabas.client.offsets import EARLIEST
from barnabas.client.records import ConsumerRecord
from barnabas.types import TopicPartition


def record(topic: str, offset: int, timestamp_ms: int, value: bytes = b"v") -> ConsumerRecord:
    return ConsumerRecord(topic, 0, offset, timestamp_ms, None, value, ())


def line(record: ConsumerRecord) -> bytes:
    return (record.value or b"") + b"\n"


def test_records_are_in_order_of_time_and_of_offsets_within_a_partition() -> None:
    given = [record("a", 1, 50), record("b", 7, 20), record("a", 0, 10), record("a", 2, 30)]
    found = [(found.topic, found.offset) for found in by_time(given)]
    assert found == [("a", 0), ("b", 7), ("a", 1), ("a", 2)]


def test_each_line_begins_with_its_topic(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    printer = TailPrinter(line, is_coloured=False, wanted=RecordFilter(key="", header="", path=""))
    assert printer.write([record("a", 3, 1, b"x"), record("b\x1b", 0, 2, b"y")]) == 2
    assert capfdbinary.readouterr().out == b"a[0]@3  x\nb\\x1b[0]@0  y\n"


def test_a_topic_keeps_its_colour(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    printer = TailPrinter(line, is_coloured=True)
    printer.write([record("a", 0, 1)])
    printer.write([record("a", 0, 1)])
    first, second = capfdbinary.readouterr().out.splitlines()
    assert first == second
    assert re.match(rb"\x1b\[\d+ma\[0\]@0\x1b\[0m  v", first)


def cluster(*names: str) -> Any:
    topics = [SimpleNamespace(name=name, partitions={0: None}) for name in names]
    return SimpleNamespace(topics=lambda: topics)


def test_internal_topics_are_followed_by_name_only() -> None:
    present = cluster("a1", "b1", "__consumer_offsets")
    by_pattern = FollowedTopics(pattern=re.compile(".*1|__.*"))
    assert [found.topic for found in by_pattern.partitions(present)] == ["a1", "b1"]
    by_name = FollowedTopics({"__consumer_offsets"})
    assert [found.topic for found in by_name.partitions(present)] == ["__consumer_offsets"]


def test_a_partition_that_comes_later_is_read_from_its_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assigned: list[dict[TopicPartition, int]] = []
    old, new = TopicPartition("a", 0), TopicPartition("b", 0)
    inner = SimpleNamespace(assignment=[old], position=lambda partition: 5, assign=assigned.append)
    followed = FollowedTopics({"a", "b"})
    consumer: Any = SimpleNamespace(inner=inner)
    tailing._take_newcomers(cluster("a"), followed, consumer)
    assert assigned == []
    tailing._take_newcomers(cluster("a", "b"), followed, consumer)
    assert assigned == [{old: 5, new: EARLIEST}]
    assert capsys.readouterr().err == "b is followed as well\n"
