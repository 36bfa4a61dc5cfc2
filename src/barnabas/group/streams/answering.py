"""The answer to a heartbeat: epoch, tasks, statuses, and where other instances of the application are.

Source: the second half of ``GroupMetadataManager.streamsGroupHeartbeat`` and ``EndpointToPartitionsManager``
of Apache Kafka 4.4; KIP-1071 ("Interactive queries").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from barnabas.group.group_table import GroupTable
from barnabas.group.streams.configured_topology import ConfiguredTopology, Status
from barnabas.group.streams.joining import owned_by
from barnabas.group.streams.member import (
    JOIN_EPOCH,
    StreamsMember,
    StreamsMemberState,
    TaskId,
    TaskRoles,
)
from barnabas.group.streams.records import by_subtopology
from barnabas.group.streams.streams_group import Epochs, StreamsGroup
from barnabas.group.streams.target_assignment import TAGS, delay_timer, wait_ms
from barnabas.operation import Instant
from barnabas.wire.messages import streams_group_heartbeat_response as answers
from barnabas.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

SOON_MS = 500
"""Longest heartbeat interval, in ms, of a member whose tasks others must give up, or whose topics are being
created."""
LEAST_MS = 50
"""Shortest heartbeat interval, in ms, of a member that waits for the next target assignment."""
TAGS_VERSION = 1


@dataclass(frozen=True, slots=True)
class Answering:
    """The facts on which an answer rests."""

    table: GroupTable
    group: StreamsGroup
    old: StreamsMember
    member: StreamsMember
    replaced: StreamsMember | None
    """The static member whose place `member` took."""
    configured: ConfiguredTopology
    epochs: Epochs

    def reply(
        self,
        request: StreamsGroupHeartbeatRequest,
        version: int,
        target_epoch: int,
        at: Instant,
    ) -> StreamsGroupHeartbeatResponse:
        group, member, cluster = self.group, self.member, self.table.cluster
        delay_ms = self._delay_ms(target_epoch, at)
        reply = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._interval_ms(delay_ms),
            task_offset_interval_ms=cluster.group_config(
                group.group_id, "streams.task.offset.interval.ms"
            ),
            acceptable_recovery_lag=cluster.group_config(
                group.group_id, "streams.acceptable.recovery.lag"
            ),
            status=self._statuses(version, delay_ms is not None, at),
        )
        moved = member.assigned != self.old.assigned
        if moved or self._lacks_answer(request):
            reply.active_tasks = _task_ids(member.assigned.active)
            reply.standby_tasks = _task_ids(member.assigned.standby)
            reply.warmup_tasks = _task_ids(member.assigned.warmup)
        if member.endpoint != self.old.endpoint or (moved and member.endpoint is not None):
            group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            reply.partitions_by_user_endpoint = self._endpoints()
        if self.table.streams(group.group_id) is group:
            reply.endpoint_information_epoch = group.endpoint_epoch
        return reply

    def _lacks_answer(self, request: StreamsGroupHeartbeatRequest) -> bool:
        """Whether the member does not know its tasks: it joins, or the answer that named them was lost
        (docs/divergence.md)."""
        if request.member_epoch == JOIN_EPOCH or request.member_epoch != self.old.epoch:
            return True
        owned, held = owned_by(request), self.member.assigned
        return owned is not None and owned != TaskRoles(
            frozenset(held.active), held.standby, held.warmup
        )

    def _delay_ms(self, target_epoch: int, at: Instant) -> float | None:
        """How long the next target assignment is delayed; None where it is not."""
        due_ms = self.table.timers.pending(delay_timer(self.group.group_id))
        if due_ms is not None:
            return max(due_ms - at.now_ms, 0)
        if self.epochs.epoch > target_epoch:
            return wait_ms(self.table.cluster, self.group, at.wall_ms)
        return None

    def _interval_ms(self, delay_ms: float | None) -> int:
        """Milliseconds until the next heartbeat. Shorter for a member that waits (docs/divergence.md)."""
        interval_ms = self.table.cluster.group_config(
            self.group.group_id, "streams.heartbeat.interval.ms"
        )
        if delay_ms is not None:
            return max(min(interval_ms, int(delay_ms) + LEAST_MS), LEAST_MS)
        waits = self.member.state is StreamsMemberState.UNRELEASED_TASKS or bool(
            self.configured.missing
        )
        return min(interval_ms, SOON_MS) if waits else interval_ms

    # Statuses

    def _statuses(self, version: int, delayed: bool, at: Instant) -> list[answers.Status]:
        group, member = self.group, self.member
        found: list[answers.Status] = []
        topology = group.topology
        if topology is not None and member.topology_epoch < topology.epoch:
            why = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology"
                f" epoch {topology.epoch}."
            )
            found.append(_status(Status.STALE_TOPOLOGY, why))
        if delayed:
            new = self.table.timers.pending(delay_timer(group.group_id)) is not None
            what = "initial rebalance delay" if new else "assignment interval"
            why = f"Assignment delayed due to the configured {what}."
            found.append(_status(Status.ASSIGNMENT_DELAYED, why))
        if self.configured.problem is not None:
            found.append(_status(*self.configured.problem))
        if group.shutdown_asked_by is not None:
            why = (
                f"Streams group member {group.shutdown_asked_by} encountered a fatal error and requested"
                " a shutdown for the entire application."
            )
            found.append(_status(Status.SHUTDOWN_APPLICATION, why))
        tags = self._missing_tags()
        if version >= TAGS_VERSION and tags:
            why = (
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(tags)}]."
                " Configure them via 'client.tag.<tagKey>' in your Streams config."
            )
            found.append(_status(Status.MISSING_CLIENT_TAGS, why))
        return found

    def _missing_tags(self) -> list[str]:
        """The tags that the group's setting asks for and that the member has not got."""
        key = f"streams.{TAGS}"
        wanted = cast("Sequence[str]", self.table.cluster.group_value(self.group.group_id, key))
        given = {name for name, _ in self.member.tags}
        return [name for name in wanted if name not in given]

    # Where the application's state is

    def _endpoints(self) -> list[answers.EndpointToPartitions]:
        gone = {self.member.member_id}
        if self.replaced is not None:
            gone.add(self.replaced.member_id)
        others = [
            member for member_id, member in self.group.members.items() if member_id not in gone
        ]
        return [
            answers.EndpointToPartitions(
                user_endpoint=answers.Endpoint(
                    host=member.endpoint.host, port=member.endpoint.port
                ),
                active_partitions=self._partitions(member.assigned.active),
                standby_partitions=self._partitions(
                    {*member.assigned.standby, *member.assigned.warmup}
                ),
            )
            for member in [*others, self.member]
            if member.endpoint is not None
        ]

    def _partitions(self, tasks: Iterable[TaskId]) -> list[answers.TopicPartition]:
        """The partitions that the tasks read."""
        found: list[answers.TopicPartition] = []
        for part_id, indexes in by_subtopology(tasks):
            part = self.configured.subtopologies.get(part_id)
            for name in [] if part is None else part.source_names():
                topic = self.table.cluster.named(name)
                count = 0 if topic is None else len(topic)
                partitions = [index for index in indexes if index < count]
                if partitions:
                    found.append(answers.TopicPartition(topic=name, partitions=partitions))
        return found


def _status(status: Status, why: str) -> answers.Status:
    return answers.Status(status_code=status.value, status_detail=why)


def _task_ids(tasks: Iterable[TaskId]) -> list[answers.TaskIds]:
    return [
        answers.TaskIds(subtopology_id=part_id, partitions=partitions)
        for part_id, partitions in by_subtopology(tasks)
    ]
