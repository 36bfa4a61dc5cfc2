"""The group coordinator of one partition of ``__consumer_offsets``, as a machine.

Operations (`join_group`, ..., `commit_offsets`) take a request and the instant, and return an
outcome or raise ``KafkaError``. Queries (`fetch_offsets`, `list_groups`, `describe_group`) return a
response. `replay` applies records; `commit_to` and `revert_to` commit or undo them. The shard that
drives the machine calls `expect` with the offset of the next record before every operation, and an
outcome's `on_settled` once.

Invariants: an operation is complete when it returns; no function here waits or reads a clock;
queries return only committed state. Source: ``GroupCoordinatorShard`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from barnabas.config.settings import GroupSettings, OffsetsSettings
from barnabas.group import membership, offsets, queries, rebalance, sync
from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer import heartbeat as consumer_heartbeat
from barnabas.group.consumer.change import begin_timers
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.conversion import classic_members
from barnabas.group.consumer.deadlines import CONSUMER_TIMERS, on_consumer_deadline
from barnabas.group.group_table import (
    SHARE_TYPE,
    GroupCounters,
    GroupTable,
    GroupTimer,
    InitialDelay,
)
from barnabas.group.join import Joining, join_group
from barnabas.group.offset_table import OffsetTable
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.record_codec import GroupRecord, decode_record, encode_record
from barnabas.group.replaying import replay_record
from barnabas.log.state.producer_state import TransactionalWriter
from barnabas.operation import Instant
from barnabas.ports import Rng
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.delete_groups_response import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from barnabas.wire.messages.describe_groups_response import DescribedGroup
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest
from barnabas.wire.messages.list_groups_response import ListedGroup
from barnabas.wire.messages.offset_commit_request import OffsetCommitRequest
from barnabas.wire.messages.offset_delete_request import OffsetDeleteRequest
from barnabas.wire.messages.offset_fetch_request import OffsetFetchRequestGroup
from barnabas.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from barnabas.wire.messages.sync_group_request import SyncGroupRequest
from barnabas.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

_EXPIRY = (GroupTimer.EXPIRY, "", "")


class GroupObserver(Protocol):
    """Observes the decisions that group machines make at deadlines."""

    def on_due(self, machine: GroupMachine, outcome: GroupOutcome, at: Instant, /) -> None:
        """A deadline led to `outcome`, which is decided and not applied yet."""


class GroupMachine:
    """All groups of one partition."""

    __slots__ = ("_observers", "offsets", "table")

    def __init__(
        self,
        settings: GroupSettings,
        offsets_settings: OffsetsSettings,
        rng: Rng,
        cluster: ClusterTopics | None = None,
        counters: GroupCounters | None = None,
        observers: Sequence[GroupObserver] = (),
    ) -> None:
        """`cluster` knows the topics (None: there are none); `counters` are the broker's metrics.
        `observers` may get more members later."""
        self._observers = observers
        self.table = GroupTable(settings, offsets_settings, rng, cluster, counters)
        self.offsets = OffsetTable(self.table.journal)

    def __repr__(self) -> str:
        return f"GroupMachine({self.table!r}, {len(self.offsets)} offsets)"

    def describe(self) -> dict[str, object]:
        """The machine's state, for tools and failing tests."""
        groups = [group.describe() for _, group in self.table.groups.items()]
        return {"groups": groups, "offsets": len(self.offsets)}

    def validate(self) -> None:
        """Check the invariants of all groups and offsets (docs/invariants.md, 11). Raises AssertionError."""
        for group_id, group in self.table.groups.items():
            assert group.group_id == group_id, repr(group)
            group.validate()
        self.offsets.validate()

    # Operations

    def join_group(
        self, request: JoinGroupRequest, caller: Caller, parked: Parked, at: Instant
    ) -> GroupOutcome:
        """JoinGroup. `parked` is answered now or when the rebalance completes."""
        joining = Joining(request, caller, parked, at)
        group = self.table.consumer(request.group_id)
        streams = self.table.streams(request.group_id)
        if self.table.share(request.group_id) is not None or (streams and not streams.is_empty):
            refusal = rebalance.join_refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id
            )
            return self._finish(GroupOutcome(replies=[(parked, refusal)]))
        if group is None and streams is None:
            return self._finish(join_group(self.table, joining))
        if group is not None and not group.is_empty:
            return self._finish(classic_members.join(self.table, group, joining))
        if request.member_id:
            refusal = rebalance.join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return self._finish(GroupOutcome(replies=[(parked, refusal)]))
        empty = group or streams
        assert empty is not None
        self.table.groups.remove(request.group_id)
        # Generations continue from the old group's, so that no generation has two owners of a
        # partition.
        outcome = join_group(self.table, joining, after=empty.epoch)
        assert outcome.decides, f"{empty!r} makes place for a group that is not written"
        outcome.records = [*offsets.tombstones(empty), *outcome.records]
        return self._finish(outcome)

    def sync_group(self, request: SyncGroupRequest, parked: Parked, at: Instant) -> GroupOutcome:
        """SyncGroup. `parked` is answered now or when the leader's assignment is committed."""
        group = self.table.running_consumer(request.group_id)
        if group is not None:
            return self._finish(classic_members.sync(self.table, group, request, parked, at))
        return self._finish(sync.sync_group(self.table, request, parked, at))

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> GroupOutcome:
        group = self.table.running_consumer(request.group_id)
        if group is not None:
            return self._finish(classic_members.heartbeat(self.table, group, request, at))
        return self._finish(membership.heartbeat(self.table, request, at))

    def leave_group(self, request: LeaveGroupRequest, at: Instant) -> GroupOutcome:
        """LeaveGroup. `request` has the form of version 3 and later, with `members`."""
        group = self.table.running_consumer(request.group_id)
        if group is not None:
            return self._finish(classic_members.leave(self.table, group, request, at))
        return self._finish(membership.leave_group(self.table, request, at))

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, at: Instant
    ) -> GroupOutcome:
        """ConsumerGroupHeartbeat: the only request of the consumer protocol (KIP-848)."""
        return self._finish(consumer_heartbeat.heartbeat(self.table, request, caller, at))

    def commit_offsets(
        self, request: OffsetCommitRequest, caller: Caller, at: Instant
    ) -> GroupOutcome:
        """OffsetCommit. Every topic in `request` has its name, and its id if it exists with one."""
        return self._finish(offsets.commit_offsets(self.table, request, caller, at))

    def commit_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        producer: TransactionalWriter,
        version: int,
        at: Instant,
    ) -> GroupOutcome:
        """TxnOffsetCommit of a client's `version`: the offsets take effect when the producer's transaction
        commits. Every topic in `request` has its name and id."""
        return self._finish(
            offsets.commit_transactional_offsets(self.table, request, producer, version, at)
        )

    def delete_offsets(self, request: OffsetDeleteRequest) -> GroupOutcome:
        return self._finish(offsets.delete_offsets(self.table, self.offsets, request))

    def delete_groups(self, group_ids: Sequence[str]) -> GroupOutcome:
        """DeleteGroups. A group that cannot be deleted has an error in the answer; the others are deleted."""
        outcome, results = GroupOutcome(), []
        for group_id in group_ids:
            result = DeletableGroupResult(group_id=group_id)
            try:
                outcome.records += offsets.delete_group(self.table, self.offsets, group_id)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
            results.append(result)
        outcome.reply = DeleteGroupsResponse(results=results)
        return self._finish(outcome)

    def fetch_stable_offsets(self, request: OffsetFetchRequestGroup) -> GroupOutcome:
        """Fetch offsets of the newest state; the answer is sent when that state is committed
        (KIP-447)."""
        found = offsets.fetch_offsets(self.table, self.offsets, request, newest=True)
        return self._finish(GroupOutcome(reply=OffsetFetchResponse(groups=[found])))

    def delete_topics(self, deleted: Mapping[Uuid, str]) -> GroupOutcome:
        """The topics in `deleted` (name by id) no longer exist: delete their offsets."""
        return self._finish(offsets.delete_topics(self.table, self.offsets, deleted))

    # Queries

    def fetch_offsets(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """The committed offsets of one group."""
        return offsets.fetch_offsets(self.table, self.offsets, request, newest=False)

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        return queries.list_groups(self.table, states, types)

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        return queries.describe_group(self.table, group_id, api_version)

    # Records

    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def expect(self, next_offset: int) -> None:
        """Expect that the next record gets the offset `next_offset`."""
        self.table.journal.offset = next_offset

    def replay(self, offset: int, producer_id: int, record: GroupRecord) -> None:
        """Apply one record; `producer_id` is -1 outside of transactions."""
        self.table.journal.offset = offset
        replay_record(self.table, self.offsets, offset, producer_id, record)

    def replay_marker(self, offset: int, producer_id: int, committed: bool) -> None:
        """Apply the end of a transaction of `producer_id`."""
        self.table.journal.offset = offset
        self.offsets.end_transaction(producer_id, committed)

    def commit_to(self, offset: int) -> None:
        self.table.journal.commit_to(offset)

    def revert_to(self, offset: int) -> None:
        self.table.journal.revert_to(offset)

    # Loading, deadlines, unloading

    def on_loaded(self, at: Instant) -> list[GroupOutcome]:
        """The partition is loaded: start the session of every member; classic groups that are too large
        rebalance."""
        table, outcomes = self.table, []
        for _, group in table.groups.items():
            if not isinstance(group, (ClassicGroup, ConsumerGroup)):
                _begin_late_timers(table, group, at)
                continue
            if isinstance(group, ConsumerGroup):
                group.owned_twice = group.owners.contested()
                begin_timers(table, group, at)
                continue
            for member in group.members.values():
                table.keep_alive(group, member, at)
            if len(group.members) > table.settings.size_max:
                outcomes.append(self._finish(rebalance.prepare_rebalance(table, group, at)))
        table.timers.schedule(
            _EXPIRY, at.now_ms + table.offsets_settings.retention_check_interval_ms
        )
        return outcomes

    def on_unloaded(self) -> list[tuple[Parked, Message]]:
        """The partition has moved away: mark all groups dead. Waiting requests get NOT_COORDINATOR."""
        table, code = self.table, ErrorCode.NOT_COORDINATOR
        for _, group in table.groups.items():
            if not isinstance(group, ClassicGroup):
                group.is_dead = True
                continue
            group.move_to(GroupState.DEAD, group.state_wall_ms)
            for member in group.members.values():
                refusal = rebalance.join_refused(code, member.member_id)
                table.answer_join(member, refusal)
                table.answer_sync(member, rebalance.sync_refused(code))
        return self.table.take_replies()

    def deadline_ms(self) -> float:
        return self.table.timers.deadline_ms()

    def take_due(self, at: Instant) -> GroupOutcome | None:
        """Handle one deadline that is due; None if none is."""
        due = self.table.timers.take_due(at.now_ms)
        if due is None:
            return None
        (kind, group_id, member_id), payload = due
        streams = self.table.streams(group_id)
        if streams is not None:
            from barnabas.group.streams.deadlines import on_streams_deadline

            outcome = on_streams_deadline(self.table, streams, (kind, member_id), payload, at)
        elif kind in CONSUMER_TIMERS or self.table.consumer(group_id) is not None:
            outcome = on_consumer_deadline(self.table, kind, group_id, member_id, payload, at)
        elif self.table.share(group_id) is not None:
            from barnabas.group.share.deadlines import on_share_deadline

            outcome = on_share_deadline(self.table, kind, group_id, member_id, at)
        elif kind is GroupTimer.STREAMS_DELAY:
            outcome = GroupOutcome()  # the group could not be written, or is gone
        elif kind is GroupTimer.SESSION:
            outcome = membership.on_session_deadline(self.table, group_id, member_id, at)
        elif kind is GroupTimer.JOIN:
            initial = payload if isinstance(payload, InitialDelay) else None
            outcome = rebalance.on_join_deadline(self.table, group_id, initial, at)
        elif kind is GroupTimer.SYNC:
            outcome = sync.on_sync_deadline(self.table, group_id, payload, at)
        else:
            interval_ms = self.table.offsets_settings.retention_check_interval_ms
            self.table.timers.schedule(_EXPIRY, at.now_ms + interval_ms)
            self.offsets.sweep()
            outcome = offsets.expire_offsets(self.table, self.offsets, at)
        outcome = self._finish(outcome)
        for observer in self._observers:
            observer.on_due(self, outcome, at)
        return outcome

    def _finish(self, outcome: GroupOutcome) -> GroupOutcome:
        """Add the table's replies to the outcome, now and again when `on_settled` has been
        called."""
        outcome.replies = self.table.take_replies() + outcome.replies
        settled = outcome.on_settled
        if settled is not None:
            outcome.settle_by(lambda error, at: self._finish(settled(error, at)))
        return outcome


def _begin_late_timers(table: GroupTable, group: Any, at: Instant) -> None:
    """Start the sessions of a group whose kind is loaded with the first such group."""
    if group.protocol_type == SHARE_TYPE:
        from barnabas.group.share.deadlines import begin_share_timers

        begin_share_timers(table, group, at)
    else:
        from barnabas.group.streams.deadlines import begin_streams_timers

        begin_streams_timers(table, group, at)
