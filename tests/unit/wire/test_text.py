"""Strings that are not UTF-8: decoded as Java does; offset metadata is written again as the bytes it was."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.group.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from barnabas.group.records.offset_commit_value import OffsetCommitValue
from barnabas.wire.codec import UnsupportedFieldError, decode, encode_bytes
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.wire.schema import Message
from barnabas.wire.text import KEPT_AS_BYTES, java_text, kept_text
from tests.unit.wire.damaged_text import DAMAGED, DAMAGED_TEXT, damaged_body, string_places
from tests.unit.wire.random_messages import messages, versions_of

REPLACED = "\ufffd"
OF_JAVA = {
    b"plain": "plain",
    "grün €😀".encode(): "grün €😀",
    b"h\xf6st": "h\ufffdst",
    b"\xff": REPLACED,
    b"\x80\x80": REPLACED * 2,
    b"\xc0\xaf": REPLACED * 2,
    b"\xe2\x82": REPLACED,
    b"\xe2\x82A": REPLACED + "A",
    b"\xe0\x80\x80": REPLACED * 3,
    b"\xed\xa0\x80": REPLACED,
    b"\xed\xbf": REPLACED,
    b"\xed\xa0A": REPLACED + "A",
    b"\xed\xa0\x80\xed\xb0\x80": REPLACED * 2,
    b"\xe2\x82\xed\xa0\x80": REPLACED * 2,
    b"\xf0\x9f\x98": REPLACED,
    b"\xf0\x9fA": REPLACED + "A",
    b"\xf4\x90\x80\x80": REPLACED * 4,
    b"\xf5\x80": REPLACED * 2,
    b"\xf8\x88\x80\x80\x80": REPLACED * 5,
}
"""Bytes, and what ``new String(bytes, UTF_8)`` of Java 17 makes of them."""


@pytest.mark.parametrize("data", OF_JAVA, ids=bytes.hex)
def test_text_is_what_java_decodes(data: bytes) -> None:
    assert java_text(data) == OF_JAVA[data]
    assert java_text(memoryview(data)) == OF_JAVA[data]


@pytest.mark.parametrize("data", OF_JAVA, ids=bytes.hex)
def test_kept_text_is_written_as_the_bytes_it_was(data: bytes) -> None:
    value = OffsetCommitValue(metadata=kept_text(data))
    written = encode_bytes(value, 3)
    assert data in written
    assert decode(OffsetCommitValue, 3, written) == value


def strings_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in strings_of(item)]
    if isinstance(value, Message):
        return [text for field in value.FIELDS for text in strings_of(getattr(value, field.name))]
    return []


@pytest.mark.slow
@pytest.mark.parametrize("cls", list(messages()), ids=lambda cls: cls.__name__)
def test_every_string_field_takes_any_bytes(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for place in string_places(cls, version):
            body = damaged_body(cls, version, place)
            if body is None:
                continue
            message = decode(cls, version, body)
            kept = place.endswith("metadata") and "Offset" in cls.__name__
            expected = kept_text(DAMAGED) if kept else DAMAGED_TEXT
            assert strings_of(message).count(expected) == 1, (version, place)
            if kept:
                assert encode_bytes(message, version) == body


@pytest.mark.parametrize("version", [2, 8, 9])
def test_offset_metadata_returns_as_the_bytes_that_were_committed(version: int) -> None:
    partition = OffsetCommitRequestPartition(committed_offset=6, committed_metadata="12345")
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    raw = bytes([10, 20, 0, 200, 255])
    body = encode_bytes(request, version).replace(b"12345", raw)
    committed = decode(OffsetCommitRequest, version, body).topics[0].partitions[0]
    value = OffsetCommitValue(metadata=committed.committed_metadata or "")
    stored = decode(OffsetCommitValue, 3, encode_bytes(value, 3))
    partitions = [OffsetFetchResponsePartitions(metadata=stored.metadata)]
    topics = [OffsetFetchResponseTopics(name="t", partitions=partitions)]
    answer = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])
    assert raw in encode_bytes(answer, 8)


def test_fields_kept_as_bytes_exist() -> None:
    assert LegacyOffsetCommitValue in _structures()
    found = {f"{cls.__name__}.{field.name}" for cls in _structures() for field in cls.FIELDS}
    assert found >= KEPT_AS_BYTES


def _structures() -> set[type[Message]]:
    known: set[type[Message]] = set()
    waiting = [Message]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            known.add(cls)
            waiting.append(cls)
    return known


def test_a_lone_surrogate_that_no_bytes_stand_for_is_refused() -> None:
    with pytest.raises(UnsupportedFieldError):
        encode_bytes(OffsetCommitRequest(group_id="\ud800"), 8)
    with pytest.raises(UnsupportedFieldError):
        encode_bytes(OffsetCommitValue(metadata="\ud800"), 3)
