"""The records of the offsets topic against bytes that Apache Kafka 4.3.0's own serde wrote."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.coordinators import java_string_hash, partition_of
from barnabas.group.offset_table import OffsetAndMetadata
from barnabas.group.record_codec import (
    GroupRecord,
    decode_record,
    encode_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from barnabas.group.records.group_metadata_key import GroupMetadataKey
from barnabas.group.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from barnabas.types import Uuid
from barnabas.wire.codec import MalformedError

DATE = 1700000000000
TOPIC_ID = Uuid(bytes(range(1, 17)))
OFFSET_KEY = "00010001670005746f70696300000003"
MEMBER = MemberMetadata(
    member_id="A-1",
    group_instance_id="one",
    client_id="A",
    client_host="/10.0.0.1",
    rebalance_timeout=60000,
    session_timeout=10000,
    subscription=b"\0\0\0\0\0\x01\0\x01t",
    assignment=b"\x01\x02",
)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="A-1",
    current_state_timestamp=DATE,
    members=[MEMBER],
)
EMPTY = GroupMetadataValue(
    protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=DATE
)

GOLDEN = [
    (
        offset_record("g", "topic", 3, OffsetAndMetadata(17, 5, "note", DATE, -1, TOPIC_ID)),
        OFFSET_KEY,
        (
            "0004000000000000001100000005056e6f74650000018bcfe56800"
            "0100100102030405060708090a0b0c0d0e0f10"
        ),
    ),
    (
        offset_record("g", "topic", 3, OffsetAndMetadata(17, -1, "", DATE)),
        OFFSET_KEY,
        "00040000000000000011ffffffff010000018bcfe5680000",
    ),
    (
        offset_record("g", "topic", 3, OffsetAndMetadata(17, 5, "note", DATE, DATE + 60000)),
        OFFSET_KEY,
        "0001000000000000001100046e6f74650000018bcfe568000000018bcfe65260",
    ),
    (offset_tombstone("g", "topic", 3), OFFSET_KEY, None),
    (group_tombstone("g"), "0002000167", None),
    (
        GroupRecord(GroupMetadataKey(group="g"), GROUP, 3),
        "0002000167",
        (
            "00030008636f6e73756d657200000007000572616e67650003412d310000018bcfe5680000000001"
            "0003412d3100036f6e6500014100092f31302e302e302e310000ea6000002710"
            "00000009000000000001000174000000020102"
        ),
    ),
    (
        GroupRecord(GroupMetadataKey(group="g"), EMPTY, 3),
        "0002000167",
        "0003000000000000ffffffff0000018bcfe5680000000000",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_bytes_are_those_of_kafka(record: GroupRecord, key: str, value: str | None) -> None:
    wanted = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert encode_record(record) == wanted
    back = decode_record(*wanted)
    assert back is not None
    assert encode_record(back) == wanted


def test_records_of_protocols_not_served_are_skipped() -> None:
    assert decode_record(bytes.fromhex("0012000167"), b"\0\0junk") is None  # of 4.1's early access
    assert decode_record(b"\x7f\xff", None) is None


def test_the_first_form_of_an_offset_is_read() -> None:
    # type 0: what OffsetCommit v0 of long ago left behind
    key = bytes.fromhex("00000001670005746f70696300000003")
    record = decode_record(
        key, bytes.fromhex("0000") + (17).to_bytes(8, "big") + b"\0\0" + bytes(8)
    )
    assert record is not None
    assert record.value is not None
    assert record.value.offset == 17


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\0", None),
        (bytes.fromhex(OFFSET_KEY)[:-1], None),
        (bytes.fromhex(OFFSET_KEY), b"\0"),
        (bytes.fromhex(OFFSET_KEY), b"\0\x04\0\0"),
        (bytes.fromhex("0002000167"), b"\0\x03" + b"\xff" * 40),
    ],
)
def test_damaged_records_are_one_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedError):
        decode_record(key, value)


def test_an_unknown_version_of_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="99"):
        decode_record(bytes.fromhex(OFFSET_KEY), b"\0\x63" + bytes(30))


@pytest.mark.parametrize(
    ("group", "code", "partition"),
    [
        ("g", 103, 3),
        ("grüße", 98768023, 23),
        ("\U0001f600", 1772899, 49),
        ("polygenelubricants", -2147483648, 0),
        ("analytics", -1693017210, 10),
        ("my-group", -1906497762, 12),
    ],
)
def test_a_group_has_the_partition_that_kafka_gives_it(
    group: str, code: int, partition: int
) -> None:
    assert java_string_hash(group) == code
    assert partition_of(group, 50) == partition
