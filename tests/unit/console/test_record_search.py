"""Records on a page: filters, and how bytes of any kind are shown."""

from __future__ import annotations

import pytest

from barnabas.console.cluster_views.record_search import (
    SHOWN_BYTES_MAX,
    RecordFilter,
    shown_record,
)
from barnabas.record.decode import Record

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
