"""Offsets that a transaction commits: pending until its marker, applied or dropped by it, through refusals of
the log, new coordinators, expiry and deletion."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.coordinator.coordinators import Marker
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.log.state.producer_state import TransactionalWriter
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.record.batch import iterate
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.group.world import World

DAY_MS = 86_400_000
PRODUCER = 9


class Group:
    """One group, one topic, any producers."""

    def __init__(self) -> None:
        self.world = World()
        self.topic_id: Uuid = self.world.topic("t")
        self.log = self.world.logs[0]

    def commit(self, offset: int, producer: int = PRODUCER, version: int = 5, **who: Any) -> str:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = TxnOffsetCommitRequestTopic(name="t", topic_id=self.topic_id, partitions=[part])
        request = TxnOffsetCommitRequest(group_id="g", topics=[topic], **who)
        writes = TransactionalWriter(producer, 0)

        def decide(machine: GroupMachine, at: Any) -> GroupOutcome:
            return machine.commit_transactional_offsets(request, writes, version, at)

        told: list[Any] = []
        self.world.groups.write("g", decide, told.append)
        self.world.settle()
        return _code(told)

    def end(self, committed: bool, producer: int = PRODUCER) -> str:
        told: list[Any] = []
        self.world.groups.end_transaction(0, Marker(producer, 0, 1, committed), told.append)
        self.world.settle()
        return _code(told) if told else "WAITS"

    def commit_plainly(self, offset: int) -> None:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="t", partitions=[part])
        self.world.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 9)

    def fetch(self, *, stable: bool = True) -> int | str:
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        asked = OffsetFetchRequestGroup(group_id="g", topics=[topic])
        answer = self.world.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 9)
        part = answer.groups[0].topics[0].partitions[0]
        offset: int = part.committed_offset
        return ErrorCode(part.error_code).name if part.error_code else offset

    def succeed(self) -> None:
        """Another coordinator takes over what is committed."""
        self.world.resign()
        self.log.truncate()
        self.world.elect()


def _code(told: list[Any]) -> str:
    [answer] = told
    if isinstance(answer, KafkaError):
        return ErrorCode(answer.code).name
    if answer is None:
        return "NONE"
    return ErrorCode(answer.topics[0].partitions[0].error_code).name


@pytest.fixture
def group() -> Group:
    return Group()


def test_a_transaction_writes_batches_of_its_own(group: Group) -> None:
    group.commit_plainly(1)
    group.commit(5)
    group.end(True)
    headers = [view.header for batch in group.log.batches for view in iterate(batch)]
    assert [(h.producer_id, h.is_transactional, h.is_control) for h in headers] == [
        (-1, False, False),
        (PRODUCER, True, False),
        (PRODUCER, True, True),
    ]


@pytest.mark.parametrize("committed", [True, False])
def test_a_new_coordinator_knows_what_is_pending(group: Group, committed: bool) -> None:
    group.commit_plainly(1)
    group.commit(5)
    group.succeed()
    assert group.fetch() == "UNSTABLE_OFFSET_COMMIT"
    assert group.fetch(stable=False) == 1
    group.end(committed)
    group.succeed()
    assert group.fetch() == (5 if committed else 1)


def test_a_marker_that_is_lost_leaves_the_offset_pending(group: Group) -> None:
    group.commit(5)
    group.world.held = True
    assert group.end(True) == "WAITS"
    assert group.fetch(stable=False) == -1
    group.succeed()
    group.world.held = False
    assert group.fetch() == "UNSTABLE_OFFSET_COMMIT"
    assert group.end(True) == "NONE"
    assert group.fetch() == 5


def test_a_marker_that_the_log_refuses_changes_nothing(group: Group) -> None:
    group.commit(5)
    group.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert group.end(True) == "COORDINATOR_NOT_AVAILABLE"
    group.log.refusal = None
    assert group.fetch() == "UNSTABLE_OFFSET_COMMIT"
    group.end(True)
    assert group.fetch() == 5


def test_an_offset_that_the_log_refuses_is_not_pending(group: Group) -> None:
    group.commit_plainly(1)
    group.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert group.commit(5) == "COORDINATOR_NOT_AVAILABLE"
    group.log.refusal = None
    assert group.fetch() == 1
    assert group.end(True) == "NONE"
    assert group.fetch() == 1


def test_a_marker_where_no_coordinator_is_goes_elsewhere(group: Group) -> None:
    group.world.resign()
    assert group.end(True) == "NOT_COORDINATOR"


def test_a_plain_commit_after_the_transaction_s_offset_is_younger(group: Group) -> None:
    group.commit(5)
    group.commit_plainly(7)
    group.end(True)
    assert group.fetch() == 7
    group.succeed()
    assert group.fetch() == 7


def test_two_transactions_each_apply_their_own_offsets(group: Group) -> None:
    group.commit(5, producer=1)
    group.commit(6, producer=2)
    group.end(False, producer=2)
    assert group.fetch() == "UNSTABLE_OFFSET_COMMIT"
    group.end(True, producer=1)
    assert group.fetch() == 5


def test_a_transaction_s_decision_waits_for_those_before_it(group: Group) -> None:
    group.world.held = True
    told: list[Any] = []
    group.world.groups.end_transaction(0, Marker(PRODUCER, 0, 1, True), told.append)
    group.world.settle()
    assert told == []
    group.world.held = False
    group.world.settle()
    assert told == [None]


def test_offsets_that_are_pending_do_not_expire(group: Group) -> None:
    group.commit_plainly(1)
    group.commit(5)
    group.world.advance(9 * DAY_MS)
    assert group.fetch() == "UNSTABLE_OFFSET_COMMIT"
    assert group.fetch(stable=False) == 1
    group.end(False)
    group.world.advance(DAY_MS)
    assert group.fetch() == -1


def test_a_group_with_pending_offsets_only_does_not_expire(group: Group) -> None:
    group.commit(5)
    group.world.advance(9 * DAY_MS)
    group.end(True)
    assert group.fetch() == 5


def test_a_deleted_group_s_pending_offsets_are_gone(group: Group) -> None:
    group.commit(5)
    answer = group.world.ask(DeleteGroupsRequest(groups_names=["g"]))
    assert answer.results[0].error_code == 0
    group.end(True)
    assert group.fetch() == -1


def test_a_group_that_is_not_deleted_says_why(group: Group) -> None:
    result = group.world.ask(DeleteGroupsRequest(groups_names=["absent"])).results[0]
    assert ErrorCode(result.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    assert result.error_message == "Group absent not found."


def test_a_deleted_offset_is_no_longer_pending(group: Group) -> None:
    group.commit(5)
    part = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[part])
    group.world.ask(OffsetDeleteRequest(group_id="g", topics=[topic]))
    group.end(True)
    assert group.fetch() == -1


def test_pending_offsets_of_a_deleted_topic_are_gone(group: Group) -> None:
    group.commit(5)
    group.world.image.replay(RemoveTopicRecord(topic_id=group.topic_id))
    group.world.groups.on_topics_deleted({group.topic_id: "t"})
    group.world.settle()
    group.world.topic("t")
    group.end(True)
    assert group.fetch() == -1
    assert len(group.world.groups.shards[0].machine.offsets) == 0


def test_pending_offsets_of_a_topic_s_namesake_stay(group: Group) -> None:
    group.commit(5)
    group.world.groups.on_topics_deleted({Uuid(bytes([7] * 16)): "t"})
    group.world.settle()
    group.end(True)
    assert group.fetch() == 5


def test_a_member_that_is_unknown_or_of_another_generation_is_refused(group: Group) -> None:
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": "m"}
    assert group.commit(5, **member) == "ILLEGAL_GENERATION"
    assert group.commit(5, version=6, **member) == "GROUP_ID_NOT_FOUND"
    group.commit_plainly(1)
    assert group.commit(5, **member) == "UNKNOWN_MEMBER_ID"
    group.end(True)
    assert group.fetch() == 1
