"""Records as bytes: kcat's format strings, JSON and its inverse, columns."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.records.columnar_lines import lines_of
from barnabas.cli.records.consuming import COLUMN_TOKENS
from barnabas.cli.records.format_string import TOKENS, compiled, parse_format, unescape
from barnabas.cli.records.record_json import kcat_json, parse_json, plain, to_json
from barnabas.cli.records.record_lines import FORMATS, KEYS, VALUE, chosen_format
from barnabas.client.records import ConsumerRecord, ProducerRecord
from barnabas.record.builder import build_batch
from barnabas.record.columnar import decode_groups
from barnabas.types import TopicPartition

VALUES = b'a\x00b\xff\xfe\n\t"\\/\x1f\x7f'
HEADERS = (("h", b"v"), ("n", None), ("e", b""), ("h", b"\xff,="))
HOSTILE = ConsumerRecord("odd", 0, 0, 1234567890123, b"\xc3\x28k", VALUES, HEADERS)
NULLS = ConsumerRecord("odd", 0, 1, 1, None, None)
records = st.builds(
    ConsumerRecord,
    topic=st.just("t"),
    partition=st.integers(0, 9),
    offset=st.integers(0, 1 << 62),
    timestamp_ms=st.integers(0, 1 << 62),
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode),
    headers=st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.none() | st.binary()),
        max_size=3,
    ).map(tuple),
)


def test_a_format_string_prints_what_kcat_prints() -> None:
    """The bytes are those of kcat 1.7.1."""
    line = compiled(parse_format(r"%t|%p|%o|%k|%S|%K|%T|%h|%%|\x41\x4a4\101\65\q\\\n"))
    assert line(HOSTILE) == (
        b"odd|0|0|\xc3(k|12|3|1234567890123|h=v,n=NULL,e=,h=\xff,=|%|A\xa4eAq\\\n"
    )
    assert line(NULLS) == b"odd|0|1||-1|-1|1||%|A\xa4eAq\\\n"
    lengths = compiled(parse_format(r"[%R]%s"))
    assert lengths(HOSTILE) == b"[\x00\x00\x00\x0c]" + VALUES
    assert lengths(NULLS) == b"[\xff\xff\xff\xff]"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        (r"\n\r\t", b"\n\r\t"),
        (r"\x0\x7fg", b"\x00\x7fg"),
        (r"\012\0x41\0", b"\nA\x00"),
        (r"\300", b","),
        ("\\", b"\\"),
        (r"\é", "é".encode()),
    ],
)
def test_an_escape_is_one_byte(text: str, means: bytes) -> None:
    assert unescape(text.encode()) == means


@pytest.mark.parametrize("text", ["%", "a%z", "%s %"])
def test_a_token_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a format has no %"):
        parse_format(text)


def test_null_has_a_text_where_one_is_given() -> None:
    assert compiled(VALUE, b"NULL")(NULLS) == b"NULL\n"
    assert compiled(KEYS, b"-")(NULLS) == b"-\t-\n"


def test_a_format_is_a_name_or_has_tokens() -> None:
    assert chosen_format(None).string == VALUE and chosen_format(None, keys=True).string == KEYS
    assert all(chosen_format(name) for name in FORMATS)
    assert chosen_format("%s").is_plain and not chosen_format("json").is_plain
    with pytest.raises(ValueError, match="a format is one of"):
        chosen_format("yaml")


def test_a_line_of_kcats_json_has_its_bytes() -> None:
    """The bytes are those of kcat 1.7.1: what is no UTF-8 stays as it is."""
    assert kcat_json(HOSTILE, 1, "create") == (
        b'{"topic":"odd","partition":0,"offset":0,"tstype":"create","ts":1234567890123,"broker":1,'
        b'"headers":["h","v","n",null,"e","","h","\xff,="],"key":"\xc3(k",'
        b'"payload":"a\\u0000b\xff\xfe\\n\\t\\"\\\\/\\u001F\x7f"}\n'
    )
    assert kcat_json(NULLS, 1, "logappend").endswith(b'"broker":1,"key":null,"payload":null}\n')


@pytest.mark.slow
@given(records)
def test_a_record_comes_back_from_its_line(record: ConsumerRecord) -> None:
    line = to_json(record)
    assert json.loads(line) == plain(record) and line.count(b"\n") == 1
    written = parse_json("u", line)
    assert written == ProducerRecord(
        "u", record.value, record.key, record.partition, record.timestamp_ms, record.headers
    )


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"value": {"a": ["\xc3\xa9"]}}', ProducerRecord("t", '{"a": ["é"]}'.encode())),
        (b"{}", ProducerRecord("t", None)),
        (b'{"key": 7, "timestamp": -1}', ProducerRecord("t", None, b"7")),
        (b'{"headers": {"a": "b"}}', ProducerRecord("t", None, headers=(("a", b"b"),))),
    ],
)
def test_a_line_may_say_less_than_a_record(line: bytes, record: ProducerRecord) -> None:
    assert parse_json("t", line) == record


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"7",
        b"{",
        b'{"partition": "1"}',
        b'{"timestamp": true}',
        b'{"value_base64": "?"}',
        b'{"key": "\\ud800"}',
        b'{"headers": [["\\ud800", "v"]]}',
        b'{"headers": [["a"]]}',
        b'{"headers": [[1, "a"]]}',
        b'{"headers": 1}',
    ],
)
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json("t", line)


@pytest.mark.slow
def test_columns_print_what_records_print() -> None:
    rows = [
        (None, b"", (), 5), (b"k", None, (), 6), (b"", VALUES, (), 1 << 40), (b"\xff", b"v\n", (), 8)
    ]  # fmt: skip
    batch = build_batch(rows, timestamp_ms=0, base_offset=7)
    made = [
        ConsumerRecord("t", 3, 7 + index, stamp, key, value)
        for index, (key, value, _, stamp) in enumerate(rows)
    ]
    for text in (r"%s\n", r"%t %p %o %T %k=%s %K %S\n", r"x\n", "%k", r"%t\n"):
        string = parse_format(text)
        assert string.tokens <= COLUMN_TOKENS <= set(TOKENS)
        for null in (b"", b"NULL"):
            (columns,) = decode_groups(memoryview(bytes(batch)), 7, 99)
            printed = lines_of(columns, TopicPartition("t", 3), string, null)
            assert bytes(printed) == b"".join(map(compiled(string, null), made)), text
