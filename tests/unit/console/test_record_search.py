"""Records on a page: filters, and how bytes of any kind are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.cli.records.record_filter import RecordFilter
from barnabas.console.cluster_views import record_search
from barnabas.console.cluster_views.record_search import (
    JSON_CHARS_MAX,
    SHOWN_BYTES_MAX,
    SearchResult,
    search,
    shown_record,
)
from barnabas.host.client import Connected
from barnabas.record.decode import Record
from barnabas.types import TopicPartition

DEEP = b"[" * 100_000


def of(value: bytes | None, key: bytes | None = b"k", **headers: bytes) -> Record:
    return Record(7, 1, key, value, tuple(headers.items()))


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (RecordFilter(), True),
        (RecordFilter(key="JF"), True),
        (RecordFilter(key="LAX"), False),
        (RecordFilter(header="trace"), True),
        (RecordFilter(header="trace=1"), True),
        (RecordFilter(header="trace=2"), False),
        (RecordFilter(path="legs[1].to=SFO"), True),
        (RecordFilter(path="$.legs[1].to"), True),
        (RecordFilter(path="legs[2].to"), False),
        (RecordFilter(path="delay=7"), True),
        (RecordFilter(path="delay=70"), False),
        (RecordFilter(path="delay.of.nothing"), False),
    ],
)
def test_a_filter_looks_at_key_header_and_json_path(wanted: RecordFilter, passes: bool) -> None:
    record = of(b'{"legs": [{}, {"to": "SFO"}], "delay": 7}', b"JFK", trace=b"1")
    assert wanted.passes(record) is passes


@pytest.mark.parametrize("value", [None, b"", b"\xff\xfe", b"{", DEEP])
def test_a_value_that_is_no_json_has_no_path(value: bytes | None) -> None:
    assert not RecordFilter(path="a").passes(of(value))


@pytest.mark.parametrize(
    ("value", "form", "kind"),
    [
        (None, "auto", "null"),
        (b'{"a": 1}', "auto", "json"),
        (b"plain", "auto", "text"),
        (b"\x00\x01", "auto", "hex"),
        (b'{"a": 1}', "text", "text"),
        (b"plain", "hex", "hex"),
        (DEEP[:10_000], "json", "text"),
    ],
)
def test_a_value_is_shown_as_what_it_is_or_as_is_asked(
    value: bytes | None, form: str, kind: str
) -> None:
    assert shown_record(0, of(value), form).kind == kind


def test_a_value_in_hexadecimal_has_its_printable_characters_beside_it() -> None:
    shown = shown_record(0, of(b"<b>\x00\xff"), "hex").value
    assert shown is not None
    assert shown.split("  ")[0] == "000000"
    assert "3c 62 3e 00 ff" in shown
    assert shown.endswith("<b>..")


def test_a_long_value_is_cut_and_says_so() -> None:
    shown = shown_record(0, of(b"a" * (SHOWN_BYTES_MAX + 1)), "auto")
    assert shown.is_cut
    assert shown.size == SHOWN_BYTES_MAX + 1
    assert len(shown.value or "") == SHOWN_BYTES_MAX


@pytest.mark.parametrize("depth", [900, 8_000])
def test_json_that_becomes_too_long_by_its_indentation_is_shown_as_text(depth: int) -> None:
    row = b"[" * 900 + b"]" * 900
    wide = b"[" + b",".join([row] * 9) + b"]"
    for value in (row, wide, b"[" * depth + b"]" * depth):
        found = shown_record(0, of(value), "json")
        assert (found.kind, len(found.value or "")) == ("text", len(value))


def test_json_of_usual_depth_is_indented() -> None:
    found = shown_record(0, of(b'{"a": ["\xc3\xa9", 1]}'), "auto")
    assert found.value == '{\n  "a": [\n    "é",\n    1\n  ]\n}'
    assert len(found.value) < JSON_CHARS_MAX


PARTITION = TopicPartition("flights", 0)


class OnePartition:
    """A cluster with one partition that answers a fetch with all its records at once."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self.decoded = 0

    def fetch(
        self, positions: Mapping[TopicPartition, int], **_: Any
    ) -> dict[TopicPartition, SimpleNamespace]:
        end = self._records[-1].offset + 1
        return {
            tp: SimpleNamespace(error=None, records=self._from, next_offset=end) for tp in positions
        }

    def _from(self, start: int) -> Iterator[Record]:
        for record in self._records:
            if record.offset >= start:
                self.decoded += 1
                yield record

    def searched(self, count: int, wanted: RecordFilter, **options: Any) -> SearchResult:
        ends = {PARTITION: self._records[-1].offset + 1}
        connected = cast(Connected, self)
        return search(connected, {PARTITION: 0}, ends, wanted, count, "text", **options)


def numbered(count: int) -> list[Record]:
    return [Record(offset, offset, b"k", b"%d" % offset) for offset in range(count)]


NONE_PASS = RecordFilter(key="no such key")


def test_a_search_stops_within_a_fetch_when_it_has_read_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_search, "SCANNED_MAX", 10)
    partition = OnePartition(numbered(1_000))
    found = partition.searched(5, NONE_PASS)
    assert (found.scanned, partition.decoded) == (10, 11)
    assert found.stopped == "the search stopped before (partition: offset) 0: 10"


def test_a_search_stops_within_a_fetch_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_search, "SEARCH_S", 0.0)
    found = OnePartition(numbered(1_000)).searched(5, NONE_PASS)
    assert found.stopped.endswith(" 0: 0")


def test_a_search_that_reaches_the_end_with_its_last_record_has_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_search, "SCANNED_MAX", 10)
    assert OnePartition(numbered(10)).searched(5, NONE_PASS).stopped == ""


def test_a_search_shows_the_first_records_or_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    def counted(partition: int, record: Record, form: str, decode: None) -> Any:
        shown.append(record.offset)
        return shown_record(partition, record, form)

    monkeypatch.setattr(record_search, "shown_record", counted)
    partition = OnePartition(numbered(100))
    assert [found.offset for found in partition.searched(3, RecordFilter()).records] == [0, 1, 2]
    newest = partition.searched(3, RecordFilter(), newest=True)
    assert [found.offset for found in newest.records] == [99, 98, 97]
    assert newest.scanned == 100
    assert shown == [0, 1, 2, 99, 98, 97]
