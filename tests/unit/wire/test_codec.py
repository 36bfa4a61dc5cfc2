"""The compiled codec against an independent one (kio), and against malformed bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from random import Random
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from barnabas.limits import ARRAY_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX, TAGGED_FIELDS_MAX
from barnabas.wire.api_table import ApiKey
from barnabas.wire.codec import (
    MalformedError,
    UnsupportedFieldError,
    decode,
    encode,
    encode_bytes,
    write_uvarint,
)
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.describe_groups_request import DescribeGroupsRequest
from barnabas.wire.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.list_transactions_request import ListTransactionsRequest
from barnabas.wire.messages.metadata_request import MetadataRequest
from barnabas.wire.messages.metadata_response import MetadataResponse
from barnabas.wire.schema import Message
from tests.unit.wire.random_messages import messages, random_message, versions_of

EVERY = [(cls, version) for cls in messages() for version in versions_of(cls)]


def samples(count: int) -> Iterator[tuple[type[Message], int, Message]]:
    for cls, version in EVERY:
        for seed in range(count):
            rng = Random(f"{cls.__name__} {version} {seed}")
            yield cls, version, random_message(cls, version, rng)


ONLY_IN_KAFKA_39 = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
)
"""kio has them no longer; tests/golden/test_kafka39.py holds them to the bytes of Kafka 3.9.1's classes."""


SINCE_KAFKA_44 = {
    (ApiKey.API_VERSIONS, 5),
    (ApiKey.TXN_OFFSET_COMMIT, 6),
    (ApiKey.DELETE_GROUPS, 3),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 1),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 1),
    (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0),
    (ApiKey.UNREGISTER_CONTROLLER, 0),
}
"""APIs and versions that kio lacks; tests/golden holds them to the bytes of Kafka 4.4.0's classes."""


def kio_class(cls: type[Message], version: int) -> Any:
    name = cls.__name__
    kind = "request" if name.endswith("Request") else "response"
    api = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name.removesuffix(kind.title())).lower()
    return getattr(import_module(f"kio.schema.{api}.v{version}.{kind}"), name)


@pytest.mark.slow
def test_every_message_and_version_is_byte_equal_to_kio_both_ways() -> None:
    for cls, version, message in samples(2):
        if cls.API_KEY in ONLY_IN_KAFKA_39 or (cls.API_KEY, version) in SINCE_KAFKA_44:
            continue
        ours = encode_bytes(message, version)
        theirs = kio_class(cls, version)
        entity, size = entity_reader(theirs)(ours, 0)
        assert size == len(ours), (cls, version)
        written = BytesIO()
        entity_writer(theirs)(written, entity)
        assert written.getvalue() == ours, (cls, version)
        assert decode(cls, version, ours) == message, (cls, version)


@pytest.mark.slow
def test_every_truncation_is_malformed() -> None:
    for cls, version, message in samples(1):
        data = encode_bytes(message, version)
        for end in (0, 1, len(data) // 2, len(data) - 1):
            if not 0 <= end < len(data):
                continue
            with pytest.raises(MalformedError):
                decode(cls, version, data[:end])


@pytest.mark.slow
def test_damaged_bytes_are_malformed_or_another_message() -> None:
    rng = Random(7)
    refused = 0
    for cls, version, message in samples(2):
        data = bytearray(encode_bytes(message, version))
        for _ in range(min(4, len(data))):
            place = rng.randrange(len(data))
            data[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            decode(cls, version, bytes(data))
        except MalformedError:
            refused += 1
    assert refused > 300


@pytest.mark.slow
def test_noise_never_does_worse_than_malformed() -> None:
    rng = Random(8)
    for cls, version in EVERY:
        for size in (1, 7, 60, 400):
            try:
                decode(cls, version, rng.randbytes(size))
            except MalformedError:
                continue


@pytest.mark.parametrize("claim", ["ffffffff0f", "feffffff0f", "ffffffff7f", "ffffffffffffff"])
def test_an_array_longer_than_its_frame_is_malformed(claim: str) -> None:
    with pytest.raises(MalformedError):
        decode(MetadataRequest, 12, bytes.fromhex(claim))
    with pytest.raises(MalformedError):
        decode(MetadataRequest, 8, bytes.fromhex("7fffffff"))


@pytest.mark.slow
def test_a_request_has_a_bounded_number_of_elements_in_all() -> None:
    """Half a million empty names are a megabyte, and were seconds of everybody's time."""
    names = (REQUEST_ELEMENTS_MAX).to_bytes(4, "big") + bytes(2 * REQUEST_ELEMENTS_MAX)
    whole = decode(DescribeGroupsRequest, 0, names)
    assert len(whole.groups) == REQUEST_ELEMENTS_MAX
    count = REQUEST_ELEMENTS_MAX + 1
    with pytest.raises(MalformedError, match=r"Request\.groups there are more elements"):
        decode(DescribeGroupsRequest, 0, count.to_bytes(4, "big") + bytes(2 * count))
    topics = [ListOffsetsTopic(partitions=[ListOffsetsPartition()] * 600) for _ in range(600)]
    nested = encode_bytes(ListOffsetsRequest(topics=topics), 1)
    with pytest.raises(MalformedError, match=r"Topic\.partitions there are more elements"):
        decode(ListOffsetsRequest, 1, nested)


@pytest.mark.slow
def test_an_array_has_a_million_elements_at_most() -> None:
    """Numbers in requests, and all that is in responses, have no other bound."""
    for count in (ARRAY_ELEMENTS_MAX, ARRAY_ELEMENTS_MAX + 1):
        data = bytearray(b"\x01")  # no states
        write_uvarint(count + 1, data)
        data += bytes(8 * count) + b"\x00"
        if count == ARRAY_ELEMENTS_MAX:
            assert len(decode(ListTransactionsRequest, 0, data).producer_id_filters) == count
        else:
            with pytest.raises(MalformedError, match="producer_id_filters claims length 1000001"):
                decode(ListTransactionsRequest, 0, data)


@pytest.mark.parametrize("cls", [MetadataRequest, ApiVersionsResponse])
def test_a_structure_has_ten_thousand_tagged_fields_at_most(cls: type[Message]) -> None:
    """One class has tagged fields of its own, the other none."""
    version = cls.VALID[1]
    plain = encode_bytes(cls(), version)
    for count in (TAGGED_FIELDS_MAX, TAGGED_FIELDS_MAX + 1):
        number = bytearray()
        write_uvarint(count, number)
        data = plain[:-1] + number + b"\x7f\x00" * count
        if count == TAGGED_FIELDS_MAX:
            assert decode(cls, version, data) == cls()
        else:
            with pytest.raises(MalformedError, match="10001 tagged fields are more than 10000"):
                decode(cls, version, data)


def test_null_is_encoded_only_where_the_schema_allows_it() -> None:
    assert decode(MetadataRequest, 12, b"\x00\x01\x00\x00").topics is None
    with pytest.raises(MalformedError):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    with pytest.raises(UnsupportedFieldError):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(UnsupportedFieldError):
        encode(MetadataResponse(topics=None), 12)  # type: ignore[arg-type]


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = encode_bytes(MetadataRequest(topics=[]), 12)
    assert plain[-1] == 0
    tagged = plain[:-1] + b"\x02\x07\x03abc\xff\x7f\x00"
    assert decode(MetadataRequest, 12, tagged) == MetadataRequest(topics=[])
    with pytest.raises(MalformedError):
        decode(MetadataRequest, 12, plain[:-1] + b"\x01\x07\x04abc")


def test_large_records_are_passed_on_not_copied() -> None:
    records = memoryview(bytes(100_000))
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                partitions=[PartitionData(records=records), PartitionData(records=[records, b"x"])]
            )
        ]
    )
    parts = encode(response, 13)
    assert sum(part is records for part in parts) == 2
    again = decode(FetchResponse, 13, b"".join(parts))
    assert bytes(again.responses[0].partitions[1].records) == bytes(records) + b"x"  # type: ignore[arg-type]


def test_a_field_that_a_version_must_not_drop_is_refused() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with pytest.raises(UnsupportedFieldError):
        encode(request, 3)
    assert encode(request, 4)
