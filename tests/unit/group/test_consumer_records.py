"""Records of consumer groups, byte by byte as Kafka 4.3.0's own classes write them."""

from __future__ import annotations

import pytest

from barnabas.group.cluster_topics import topic_hash
from barnabas.group.consumer import records
from barnabas.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex, detached
from barnabas.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState
from barnabas.group.consumer.replay import apply
from barnabas.group.record_codec import GroupRecord, decode_record, encode_record
from barnabas.types import Uuid

T = Uuid(bytes(range(1, 17)))
MEMBER = ConsumerMember(
    "m",
    "i",
    client_id="c",
    client_host="/10.0.0.1",
    topics=("t", "u"),
    regex="x.*",
    rebalance_timeout_ms=60_000,
    assignor="range",
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={T: {0: 3, 2: 5}},
    revoking={T: {1: 4}},
)
CLASSIC = ConsumerMember(
    "m",
    rack_id="r",
    client_id="c",
    client_host="h",
    topics=("t",),
    rebalance_timeout_ms=1,
    classic=ClassicMetadata(9000, (("range", b"\0\1"),)),
)
DATE = 1_700_000_000_000
GOLDEN = [
    (
        records.member_record("g", MEMBER),
        "000500016700016d",
        "000002690002630a2f31302e302e302e31030274027504782e2a0000ea600672616e676501000100",
    ),
    (
        records.member_record("g", CLASSIC),
        "000500016700016d",
        "0000000272026302680202740100000001000100110100002328020672616e67650300010000",
    ),
    (records.epoch_record("g", 7, -5), "0003000167", "000000000007010008fffffffffffffffb"),
    (
        records.target_record("g", "m", {T: frozenset({0, 2})}),
        "000700016700016d",
        "0000020102030405060708090a0b0c0d0e0f100300000000000000020000",
    ),
    (
        records.assignment_epoch_record("g", 7, DATE),
        "0006000167",
        "0000000000070100080000018bcfe56800",
    ),
    (
        records.current_record("g", MEMBER),
        "000800016700016d",
        (
            "0000000000050000000401020102030405060708090a0b0c0d0e0f1003000000000000000201"
            "0009030000000300000005020102030405060708090a0b0c0d0e0f100200000001010005020000000400"
        ),
    ),
    (
        records.regex_record("g", "x.*", ResolvedRegex(("x1",), 9, DATE)),
        "00100001670003782e2a",
        "00000203783100000000000000090000018bcfe5680000",
    ),
    (records.member_tombstones("g", "m")[0], "000800016700016d", None),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_bytes_of_consumer_records_are_those_of_kafka(
    record: GroupRecord, key: str, value: str | None
) -> None:
    wanted = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert encode_record(record) == wanted


def replayed(*decided: GroupRecord) -> ConsumerGroup:
    group = detached("g")
    for record in decided:
        read = decode_record(*encode_record(record))
        assert read is not None
        apply(group, read.key, read.value)
    return group


def test_a_member_is_read_back_as_it_was_written() -> None:
    group = replayed(records.member_record("g", MEMBER), records.current_record("g", MEMBER))
    assert group.members.get("m") == MEMBER
    assert list(group.owners) == [(T, 0), (T, 1), (T, 2)]
    classic = replayed(records.member_record("g", CLASSIC)).members.get("m")
    assert classic == CLASSIC


def test_tombstones_take_away_all_that_a_member_was() -> None:
    group = replayed(
        records.member_record("g", MEMBER),
        records.target_record("g", "m", {T: frozenset({0})}),
        records.current_record("g", MEMBER),
        *records.member_tombstones("g", "m"),
    )
    assert not group.members.items() and not group.targets.items() and not len(group.owners)
    assert not group.topics and not group.subscribed_regexes()


def test_a_record_without_assignment_epochs_has_the_members() -> None:
    # As brokers before 4.3 wrote it.
    value = "00000000000500000004000201" + "02030405060708090a0b0c0d0e0f10" + "0200000000000100"
    record = decode_record(bytes.fromhex("000800016700016d"), bytes.fromhex(value))
    assert record is not None
    group = detached("g")
    apply(group, record.key, record.value)
    assert group.member("m").assigned == {T: {0: 5}}


def test_hash_of_a_topic_is_that_of_kafka() -> None:
    # By hash4j's XXH3 over the values that Kafka's Utils.computeTopicHash puts.
    topic_id = Uuid(bytes.fromhex("01020304050607081112131415161718"))
    assert topic_hash(topic_id, "foo", [["a", "rack1"], []]) == -5449835213483786377
