"""The quorum's Fetch, written and read by hand, is what the general codec makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.raft.core.messages import NO_HIGH_WATERMARK_KNOWN, FetchRequest, FetchResponse
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.wire import fetch_codec
from barnabas.raft.wire.fetch_codec import VERSION, FetchAnswer, FetchMessage
from barnabas.types import ZERO_UUID, Endpoint, Uuid
from barnabas.wire import codec
from barnabas.wire.codec import MalformedError, decode, encode, encode_bytes
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch_request, fetch_response

INT32 = st.integers(-1, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 2)
NAMES = st.sampled_from(["", "bench", "ß" * 100])
REQUESTS = st.builds(
    FetchMessage,
    st.builds(
        FetchRequest,
        epoch=INT32,
        replica=st.builds(
            ReplicaKey,
            st.integers(-1, 3),
            st.sampled_from([ZERO_UUID, Uuid(b"1" * 16), Uuid(b"2" * 16)]),
        ),
        offset=INT64,
        last_epoch=INT32,
        max_wait_ms=INT32,
        max_bytes=st.integers(1, 2**31 - 1),
        high_watermark=INT64 | st.just(NO_HIGH_WATERMARK_KNOWN),
    ),
    NAMES | st.none(),
)
PLACES = st.none() | st.builds(OffsetAndEpoch, st.integers(0, 99), st.integers(0, 9))
ANSWERS = st.builds(
    FetchAnswer,
    st.builds(
        FetchResponse,
        error=st.just(ErrorCode.NONE) | st.sampled_from(ErrorCode),
        epoch=st.integers(-1, 9),
        leader_id=st.integers(-1, 3),
        leader_endpoint=st.none() | st.builds(Endpoint, st.just("node"), st.integers(0, 65535)),
        high_watermark=INT64,
        log_start_offset=INT64,
        diverging=st.none() | PLACES,
        snapshot=st.none() | PLACES,
        records=st.sampled_from([b"", b"r", b"r" * 127, b"r" * 70_000]),
    ),
)


def both_ways(message: Any, general: Any, version: int) -> None:
    """Twice, for what was seen once is recognised: the same bytes, and the same values of them."""
    kind = type(message)
    by_codec = encode_bytes(general, version)
    for _ in range(2):
        assert encode_bytes(message, version) == by_codec
        assert decode(kind, version, by_codec) == fetch_form_read(kind, version, by_codec)


def fetch_form_read(kind: type, version: int, data: bytes) -> Any:
    """What the general way reads."""
    read: Any = (
        fetch_codec._read_any_request if kind is FetchMessage else fetch_codec._read_any_answer
    )
    return read(version, memoryview(data), 0)[0]


def general_of(message: Any, version: int) -> Any:
    write: Any = (
        fetch_codec._write_any_request
        if isinstance(message, FetchMessage)
        else fetch_codec._write_any_answer
    )
    out = bytearray()
    splices: codec.Splices = []
    write(version, message, out, splices)
    kind: Any = (
        fetch_request.FetchRequest
        if isinstance(message, FetchMessage)
        else fetch_response.FetchResponse
    )
    return decode(kind, version, b"".join(codec.join(out, splices)))


@pytest.mark.slow
@given(REQUESTS)
def test_a_request_has_the_bytes_of_the_general_codec(message: FetchMessage) -> None:
    both_ways(message, general_of(message, VERSION), VERSION)
    assert decode(FetchMessage, VERSION, encode_bytes(message, VERSION)) == message


@pytest.mark.slow
@given(ANSWERS)
def test_an_answer_has_the_bytes_of_the_general_codec(message: FetchAnswer) -> None:
    both_ways(message, general_of(message, VERSION), VERSION)


@pytest.mark.parametrize("size", [1023, 1024, 100_000])
def test_long_records_are_not_copied(size: int) -> None:
    at = Endpoint("node", 1)
    records = bytes(size)
    answer = FetchAnswer(FetchResponse(ErrorCode.NONE, 1, 1, at, 5, 0, records=records))
    parts = encode(answer, VERSION)
    assert any(part is records for part in parts) == (size >= 1024)


def test_no_piece_of_a_message_is_one() -> None:
    request = FetchRequest(3, ReplicaKey(1, Uuid(b"1" * 16)), 7, 2, 500, 1_000, 6)
    response = FetchResponse(ErrorCode.NONE, 1, 1, Endpoint("node", 1), 5, 0, records=b"records")
    for message in (FetchMessage(request, "bench"), FetchAnswer(response)):
        data = encode_bytes(message, VERSION)
        assert decode(type(message), VERSION, data) == message
        for size in range(len(data)):
            with pytest.raises(MalformedError):
                decode(type(message), VERSION, data[:size])


def test_another_order_of_the_same_is_read() -> None:
    """As another program may write it: more than one session, a rack, a part of the bytes."""
    request = FetchRequest(3, ReplicaKey(1, Uuid(b"1" * 16)), 7, 2, 500, 1_000, 6)
    general = general_of(FetchMessage(request, "bench"), VERSION)
    general.rack_id = "r"
    general.topics[0].partitions[0].partition_max_bytes = 10
    read = decode(FetchMessage, VERSION, encode_bytes(general, VERSION))
    assert read.request == request._replace(max_bytes=10)
    general.topics = [*general.topics, *general.topics]
    assert decode(FetchMessage, VERSION, encode_bytes(general, VERSION)).request is None
