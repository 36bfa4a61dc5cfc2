"""StreamsGroupHeartbeat: a member joins with its topology, reports its tasks, and receives its assignment.

Source: ``GroupMetadataManager.streamsGroupHeartbeat`` of Apache Kafka 4.4; KIP-1071.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.record_codec import GroupRecord
from barnabas.group.streams.answering import Answering
from barnabas.group.streams.configured_topology import (
    ConfiguredTopology,
    InternalTopic,
    configure,
)
from barnabas.group.streams.current_assignment import TaskReconciling, next_assignment
from barnabas.group.streams.joining import (
    described,
    dynamic_member,
    group_to_join,
    owned_by,
    replacing_records,
    static_member,
)
from barnabas.group.streams.leaving import leave
from barnabas.group.streams.member import (
    JOIN_EPOCH,
    StreamsMember,
    StreamsMemberState,
    TaskId,
    TaskRoles,
)
from barnabas.group.streams.records import (
    current_record,
    epochs_record,
    member_record,
    topology_record,
)
from barnabas.group.streams.streams_group import NO_EPOCH, Epochs, StreamsGroup, TaskOffsets
from barnabas.group.streams.target_assignment import (
    NO_TARGET,
    TargetAssignment,
    assignment_settings,
    current_target,
    delay_timer,
    next_target,
    wait_ms,
)
from barnabas.group.streams.topology import StreamsTopology, invalid_topology, topology_of
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    TaskOffset,
)

InternalTopics = Mapping[str, InternalTopic]
Settled = Callable[[ErrorCode, Instant], GroupOutcome]


def heartbeat(
    table: GroupTable, request: StreamsGroupHeartbeatRequest, caller: Caller, at: Instant
) -> tuple[GroupOutcome, InternalTopics]:
    """Handle one heartbeat: a join, a leave (epoch below 0) or a regular one. Returns the internal topics to
    create beside. Raises ``KafkaError`` where the group, the member, its epoch or its topology is wrong."""
    if request.member_epoch < JOIN_EPOCH:
        return leave(table, request), {}
    records: list[GroupRecord] = []
    group = group_to_join(table, request, records)
    beat = _Beat(table, group, request, caller, at, records)
    recompute = beat.describe()
    recompute = beat.configure(recompute)
    beat.read_offsets()
    beat.refresh(recompute)
    target = beat.retarget()
    beat.reconcile(target)
    return beat.outcome(target), beat.configured.missing


class _Beat:
    """The decisions of one heartbeat. The group itself changes when the records are replayed."""

    def __init__(
        self,
        table: GroupTable,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        caller: Caller,
        at: Instant,
        records: list[GroupRecord],
    ) -> None:
        self.table, self.group, self.request, self.at = table, group, request, at
        self.cluster = table.cluster
        self.records = records
        self.owned = owned_by(request)
        self.replaced: StreamsMember | None = None
        if request.instance_id is None:
            self.old = dynamic_member(group, request, self.owned)
        else:
            self.old, self.replaced = static_member(group, request, self.owned)
        self.member = described(self.old, request, caller)
        self.version = caller.api_version
        self.topology = self._topology()
        self.configured = ConfiguredTopology(self.topology)
        self.epochs: Epochs = group.epochs
        self.offsets: TaskOffsets | None = None
        """The offsets that the request reports; None where it reports none."""
        self.end_offsets: TaskOffsets | None = None

    def _topology(self) -> StreamsTopology:
        """The group's topology; the member's where the group has none."""
        known = self.group.topology
        asked = None if self.request.topology is None else topology_of(self.request.topology)
        if known is None:
            if asked is None:
                raise invalid_topology(f"Group {self.group.group_id} has no topology.")
            return asked
        if asked is not None and asked.epoch >= known.epoch and asked != known:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def describe(self) -> bool:
        """Write the records of the member and of the topology where they are new. Returns whether tasks have
        to be assigned again for it. A static member that returns as it was changes nothing."""
        group_id, old, new = self.group.group_id, self.old, self.member
        if self.replaced is not None:
            self.records += replacing_records(self.group, self.replaced, old)
        changed = old != new or (self.replaced is None and old.member_id not in self.group.members)
        if changed:
            self.records.append(member_record(group_id, new))
        if self.group.topology is None:
            self.records.append(topology_record(group_id, self.topology))
        if self.request.instance_id is None:
            return changed
        before = old.topology_epoch, old.rack_id, old.tags, old.process_id
        return before != (new.topology_epoch, new.rack_id, new.tags, new.process_id)

    def configure(self, recompute: bool) -> bool:
        """Look at the topics that exist, where they may have changed. Returns whether tasks have to be
        assigned again. Raises INVALID_REQUEST where the member has tasks that do not exist."""
        group, known = self.group, self.group.configured
        stale = known is None or known.topology != self.topology
        if stale or group.wants_refresh(self.at.now_ms):
            found = self.cluster.group_hash(self.topology.required)
            if stale or found != group.epochs.metadata_hash:
                recompute = recompute or found != group.epochs.metadata_hash
                known = group.configured = configure(self.topology, self.cluster)
            self.epochs = self.epochs._replace(metadata_hash=found)
            group.refreshed(math.inf, group.epoch)
        assert known is not None
        self.configured = known
        validated = NO_EPOCH
        if known.is_ready:
            validated = self.topology.epoch
            _check_tasks(known, self.owned)
        self.epochs = self.epochs._replace(validated_topology=validated)
        return recompute or validated != group.epochs.validated_topology

    def read_offsets(self) -> None:
        """Read how far the member's tasks are. Raises INVALID_REQUEST where a task is named twice."""
        request = self.request
        self.offsets = self._existing(request.task_offsets)
        self.end_offsets = self._existing(request.task_end_offsets)

    def _existing(self, reported: Iterable[TaskOffset] | None) -> TaskOffsets | None:
        """The offsets of tasks that exist. While the topics do not fit the topology, none does."""
        if reported is None:
            return None
        has = self.configured.has_task
        return {task: offset for task, offset in _offsets_of(reported).items() if has(task)}

    def refresh(self, recompute: bool) -> None:
        """Begin a new epoch where tasks have to be assigned again, for what members say, for the topics that
        exist or for the group's settings."""
        group = self.group
        settings = assignment_settings(self.cluster, group.group_id)
        if not recompute and settings == group.epochs.settings:
            return
        self.epochs = self.epochs._replace(epoch=group.epoch + 1, settings=settings)
        self.records.append(epochs_record(group.group_id, self.epochs))
        self.table.counters.streams_rebalances += 1
        group.refreshed(math.inf, self.epochs.epoch)

    def retarget(self) -> TargetAssignment:
        """The target assignment; a new one is computed where the group has a new epoch, neither within the
        delay of a new group nor too soon after the last."""
        group, at = self.group, self.at
        key = delay_timer(group.group_id)
        if group.is_empty and self.table.timers.pending(key) is None:
            delay_ms = self.cluster.group_config(
                group.group_id, "streams.initial.rebalance.delay.ms"
            )
            if delay_ms > 0:
                self.table.timers.schedule(key, at.now_ms + delay_ms)
        if self.table.timers.pending(key) is not None:
            return NO_TARGET._replace(epoch=group.target_epoch.epoch)
        replaced = None if self.replaced is None else self.replaced.member_id
        target = current_target(group, self.member, replaced)
        if self.epochs.epoch <= target.epoch or wait_ms(self.cluster, group, at.wall_ms) > 0:
            return target
        if self.offsets is not None:
            target = target._replace(
                offsets={**target.offsets, self.member.member_id: self.offsets}
            )
        target, records = next_target(group, target, self.configured, self.epochs, at.wall_ms)
        self.records += records
        return target

    def reconcile(self, target: TargetAssignment) -> None:
        """Take the member one step towards its part of the target assignment."""
        old, group_id = self.member, self.group.group_id
        own = target.tasks.get(old.member_id, TaskRoles())
        on = TaskReconciling(target.epoch, own, self.group, self.owned)
        self.member = member = next_assignment(old, on)
        key = (GroupTimer.REBALANCE, group_id, member.member_id)
        if member != old:
            self.records.append(current_record(group_id, member))
            if member.state is StreamsMemberState.UNREVOKED_TASKS:
                due_ms = self.at.now_ms + member.rebalance_timeout_ms
                self.table.timers.schedule(key, due_ms, member.epoch)
            else:
                self.table.timers.cancel(key)
        session_ms = self.cluster.group_config(group_id, "streams.session.timeout.ms")
        session = (GroupTimer.SESSION, group_id, member.member_id)
        self.table.timers.schedule(session, self.at.now_ms + session_ms)

    def outcome(self, target: TargetAssignment) -> GroupOutcome:
        if self.request.shutdown_application and self.group.shutdown_asked_by is None:
            self.group.shutdown_asked_by = self.member.member_id
        answering = Answering(
            self.table,
            self.group,
            self.old,
            self.member,
            self.replaced,
            self.configured,
            self.epochs,
        )
        reply = answering.reply(self.request, self.version, target.epoch, self.at)
        is_new = self.table.streams(self.group.group_id) is None
        reports = self.offsets is not None or self.end_offsets is not None
        return GroupOutcome(self.records, reply, self._settled() if is_new or reports else None)

    def _settled(self) -> Settled:
        """Once the records are kept: the group learns what is in no record."""
        table, new, member_id = self.table, self.group, self.member.member_id
        offsets, end_offsets = self.offsets, self.end_offsets

        def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
            group = table.streams(new.group_id)
            if error is not ErrorCode.NONE or group is None:
                return GroupOutcome()
            if group.configured is None:
                group.configured = new.configured
                group.shutdown_asked_by = group.shutdown_asked_by or new.shutdown_asked_by
            group.note_offsets(member_id, offsets, end_offsets)
            return GroupOutcome()

        return settled


def _check_tasks(configured: ConfiguredTopology, owned: TaskRoles | None) -> None:
    if owned is None:
        return
    for part_id, partition in sorted({*owned.active, *owned.standby, *owned.warmup}):
        part = configured.subtopologies.get(part_id)
        if part is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Subtopology {part_id} does not exist in the topology.",
            )
        if not 0 <= partition < part.task_count:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Task {partition} for subtopology {part_id} is invalid. Number of tasks for this"
                f" subtopology: {part.task_count}",
            )


def _offsets_of(reported: Iterable[TaskOffset]) -> dict[TaskId, int]:
    offsets: dict[TaskId, int] = {}
    for item in reported:
        task = TaskId(item.subtopology_id, item.partition)
        if task in offsets:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Task offsets contain a duplicate entry for subtopology {task.subtopology} and"
                f" partition {task.partition}.",
            )
        offsets[task] = item.offset
    return offsets
