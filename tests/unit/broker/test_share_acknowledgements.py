"""Acknowledgements in requests are taken apart only as far as a member can hold records."""

from __future__ import annotations

from barnabas.broker.share.share_groups import not_deleted
from barnabas.broker.share.share_partition import ACCEPT, RELEASE, Acknowledgement
from barnabas.broker.share.told import Outcome, Told, told_of
from barnabas.share.key import SharePartitionKey
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
)

TOPIC = Uuid(bytes(15) + b"\x01")
PLACE = (TOPIC, 0)


def told(*partitions: list[tuple[int, list[int]]], most: int) -> tuple[Told, Outcome]:
    """Each batch is its first offset and its kinds, one for each record."""
    topic = AcknowledgeTopic(
        topic_id=TOPIC,
        partitions=[
            AcknowledgePartition(
                partition_index=0,
                acknowledgement_batches=[
                    AcknowledgementBatch(
                        first_offset=first,
                        last_offset=first + len(kinds) - 1,
                        acknowledge_types=kinds,
                    )
                    for first, kinds in batches
                ],
            )
            for batches in partitions
        ],
    )
    return told_of([topic], 2, lambda place: most, renews=False)


def test_kinds_become_runs() -> None:
    found, outcome = told([(0, [ACCEPT, ACCEPT, RELEASE])], most=3)
    assert found == {PLACE: [Acknowledgement(0, 1, ACCEPT), Acknowledgement(2, 2, RELEASE)]}
    assert outcome == {}


def test_more_kinds_than_a_member_can_hold_records_are_refused() -> None:
    three = [ACCEPT] * 3
    for partitions in ([[(0, three)]], [[(0, three[:2]), (2, three[:1])]]):
        found, outcome = told(*partitions, most=2)
        assert found == {}
        error = outcome[PLACE]
        assert error is not None and error.code == ErrorCode.INVALID_REQUEST


def test_a_partition_that_is_named_again_and_again_counts_as_a_whole() -> None:
    found, outcome = told([(0, [ACCEPT])], [(1, [ACCEPT])], [(2, [ACCEPT])], most=2)
    assert found == {} and set(outcome) == {PLACE}


def test_a_state_goes_with_its_topic() -> None:
    gone = SharePartitionKey("g", TOPIC, 0)
    errors = {
        gone: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        gone._replace(partition=1): KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, ""),
    }
    assert list(not_deleted(errors)) == [gone._replace(partition=1)]
