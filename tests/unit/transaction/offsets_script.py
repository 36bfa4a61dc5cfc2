"""The commands of transactional offsets: a group's coordinator beside the transaction's.

Both are real, each on a log of its own; markers for ``__consumer_offsets`` reach the group's.
"""

from __future__ import annotations

from typing import Any

from barnabas.broker.coordinator.coordinators import Marker
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.log.state.producer_state import TransactionalWriter
from barnabas.types import OFFSETS_TOPIC, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import add_partitions_to_txn_request as add
from barnabas.wire.messages import join_group_request as join
from barnabas.wire.messages import offset_fetch_request as fetch
from barnabas.wire.messages import sync_group_request as sync
from barnabas.wire.messages import txn_offset_commit_request as commit
from tests.unit.group.world import World as GroupWorld
from tests.unit.transaction.world import World

TOPIC = "in"


class OffsetCommands:
    """Of one topic, ``in``, that groups read."""

    world: World
    groups: GroupWorld | None = None
    topic_id: Uuid
    members: dict[str, tuple[str, int]]

    def _groups(self) -> GroupWorld:
        if self.groups is None:
            self.groups, self.members = GroupWorld(), {}
            self.topic_id = self.groups.topic(TOPIC)
            self.world.topic(OFFSETS_TOPIC, 1)
            self.world.leaders.takers[OFFSETS_TOPIC] = self._end_offsets
        return self.groups

    def _end_offsets(self, marker: Any, partition: int) -> ErrorCode:
        groups, told = self._groups(), list[Any]()
        ended = Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
        )
        groups.groups.end_transaction(partition, ended, told.append)
        groups.settle()
        if not told:
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode(told[0].code) if told[0] is not None else ErrorCode.NONE

    def do_member(self, name: str, group: str) -> list[str]:
        """Joins as the only member, and is given its assignment."""
        groups = self._groups()
        protocol = join.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = join.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.members.get(name, ("", -1))[0],
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = groups.ask(request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            pending = groups.send(request, 9)
            groups.advance(3_000)  # group.initial.rebalance.delay.ms
            answer = pending.answer
        self.members[name] = (answer.member_id, answer.generation_id)
        groups.ask(
            sync.SyncGroupRequest(
                group_id=group,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    sync.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"")
                ],
            ),
            5,
        )
        return [f"{name} is in {group}, generation {answer.generation_id}"]

    def do_send_offset(self, name: str, group: str, offset: str, **given: str) -> list[str]:
        """The leader of the group's partition asks the coordinator, as for any batch of a transaction, and
        writes. ``member=M`` commits as that member of its generation, or of ``generation=``."""
        producer = self.producers[name]  # type: ignore[attr-defined]
        groups = self._groups()
        code = self._ask(producer, int(given.get("version", "5")))
        if code:
            return [f"{name} offset {code.name}"]
        member, generation = self.members.get(given.get("member", ""), ("", -1))
        part = commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=int(offset)
        )
        request = commit.TxnOffsetCommitRequest(
            group_id=group,
            member_id=given.get("as", member),
            generation_id_or_member_epoch=int(given.get("generation", generation)),
            topics=[
                commit.TxnOffsetCommitRequestTopic(
                    name=TOPIC, topic_id=self.topic_id, partitions=[part]
                )
            ],
        )
        writer, told = TransactionalWriter(producer.producer_id, producer.epoch), list[Any]()

        def decide(machine: GroupMachine, at: Any) -> GroupOutcome:
            return machine.commit_transactional_offsets(request, writer, 5, at)

        groups.groups.write(group, decide, told.append)
        groups.settle()
        if not told:
            return [f"{name} offset waits"]
        if isinstance(told[0], KafkaError):
            return [f"{name} offset {ErrorCode(told[0].code).name}"]
        return [f"{name} offset {ErrorCode(told[0].topics[0].partitions[0].error_code).name}"]

    def _ask(self, producer: Any, version: int) -> ErrorCode:
        """Version 5 adds the group's partition to the transaction; 4 asks whether it is in."""
        topic = add.AddPartitionsToTxnTopic(name=OFFSETS_TOPIC, partitions=[0])
        one = add.AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=version < 5,
            topics=[topic],
        )
        asked = add.AddPartitionsToTxnRequest(transactions=[one])
        answer = self.world.send(asked, version).answer
        if answer.error_code:
            return ErrorCode(answer.error_code)
        topics = answer.results_by_transaction[0].topic_results
        return ErrorCode(topics[0].results_by_partition[0].partition_error_code)

    def do_read(self, group: str, stable: str = "yes") -> list[str]:
        """The offset that a consumer of the group would begin with."""
        topic = fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        request = fetch.OffsetFetchRequest(
            groups=[fetch.OffsetFetchRequestGroup(group_id=group, topics=[topic])],
            require_stable=stable == "yes",
        )
        answer = self._groups().send(request, 9).answer
        if answer is None:
            return [f"{group} waits"]
        part = answer.groups[0].topics[0].partitions[0]
        if part.error_code:
            return [f"{group} {ErrorCode(part.error_code).name}"]
        return [f"{group} begins at {part.committed_offset}"]

    def do_hold_offsets(self) -> None:
        """Followers of the group's partition stop to follow."""
        self._groups().held = True

    def do_release_offsets(self) -> None:
        groups = self._groups()
        groups.held = False
        groups.settle()

    def do_move_group(self) -> None:
        """Another coordinator of the group takes over what is committed."""
        groups = self._groups()
        groups.resign()
        for log in groups.logs:
            log.truncate()
        groups.elect()
