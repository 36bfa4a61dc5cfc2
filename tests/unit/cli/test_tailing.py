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


def cluster(**leaders: int) -> Any:
    """Topics of one partition with that leader."""
    topics = [
        SimpleNamespace(name=name, partitions={0: SimpleNamespace(leader=leader)})
        for name, leader in leaders.items()
    ]
    return SimpleNamespace(topics=lambda: topics)


def test_internal_topics_are_followed_by_name_only() -> None:
    present = cluster(a1=1, b1=1, __consumer_offsets=1)
    by_pattern = FollowedTopics(pattern=re.compile(".*1|__.*"))
    assert [found.topic for found in by_pattern.leaders(present)] == ["a1", "b1"]
    by_name = FollowedTopics({"__consumer_offsets"})
    assert [found.topic for found in by_name.leaders(present)] == ["__consumer_offsets"]


class Inner:
    """The part of a consumer that knows what it reads."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self.positions)

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def assign(self, positions: dict[TopicPartition, int]) -> None:
        self.positions = dict(positions)


A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def reading(inner: Inner) -> tailing._Reading:
    def starts(partitions: list[TopicPartition], *, is_late: bool) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 70 if is_late else 5)

    consumer: Any = SimpleNamespace(inner=inner)
    return tailing._Reading(cluster(a=1), FollowedTopics({"a", "b"}), starts, consumer)


def look(reading: tailing._Reading, present: Any) -> None:
    reading._connected = present
    reading.look()


def test_a_partition_that_comes_later_is_read_from_its_beginning(
    reading: tailing._Reading, inner: Inner, capsys: pytest.CaptureFixture[str]
) -> None:
    reading.begin()
    assert capsys.readouterr().err == "followed once it exists: b\n"
    reading.look()
    assert inner.positions == {A: 5}
    look(reading, cluster(a=1, b=1))
    assert inner.positions == {A: 5, B: EARLIEST}
    assert capsys.readouterr().err == "b is followed as well\n"


def test_a_partition_without_a_leader_holds_up_no_other(
    reading: tailing._Reading, inner: Inner, capsys: pytest.CaptureFixture[str]
) -> None:
    reading._connected = cluster(a=1, b=-1)
    reading.begin()
    assert inner.positions == {A: 5}
    assert capsys.readouterr().err == "without a leader, shown once they have one: b-0\n"
    reading.look()
    assert inner.positions == {A: 5} and capsys.readouterr().err == ""
    look(reading, cluster(a=1, b=2))
    assert inner.positions == {A: 5, B: 70}
    assert capsys.readouterr().err == "with a leader again: b-0\n"


def test_a_partition_that_loses_its_leader_stays_where_it_is(
    reading: tailing._Reading, inner: Inner, capsys: pytest.CaptureFixture[str]
) -> None:
    reading.begin()
    inner.positions[A] = 9
    look(reading, cluster(a=-1))
    assert inner.positions == {A: 9}
    assert "without a leader" in capsys.readouterr().err
    look(reading, cluster(a=2))
    assert inner.positions == {A: 9}
    assert "again: a-0" in capsys.readouterr().err
