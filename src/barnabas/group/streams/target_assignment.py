"""The target assignment of a group's epoch: what every member shall have, and when it may be computed.

Source: ``TargetAssignmentBuilder`` and ``GroupMetadataManager.maybeUpdateStreamsTargetAssignment`` of Apache
Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.group_table import GroupTimer, TimerKey
from barnabas.group.record_codec import GroupRecord
from barnabas.group.streams.configured_topology import ConfiguredTopology
from barnabas.group.streams.member import NOTHING, StreamsMember, TaskRoles
from barnabas.group.streams.records import target_epoch_record, target_record
from barnabas.group.streams.sticky import TaskCount, assign_sticky
from barnabas.group.streams.streams_group import (
    Epochs,
    StreamsGroup,
    TargetEpoch,
    TaskOffsets,
)

STANDBYS, TAGS = "num.standby.replicas", "rack.aware.assignment.tags"
"""The settings on which an assignment rests, by the names that records have."""


class TargetAssignment(NamedTuple):
    """The tasks of each member, and the members themselves as they are after the operation."""

    epoch: int
    tasks: Mapping[str, TaskRoles]
    members: Mapping[str, StreamsMember]
    offsets: Mapping[str, TaskOffsets]
    """How far each member's tasks are, by its last report."""


NO_TARGET = TargetAssignment(0, {}, {}, {})


def delay_timer(group_id: str) -> TimerKey:
    """The deadline until which a new group waits for more members."""
    return (GroupTimer.STREAMS_DELAY, group_id, "")


def assignment_settings(cluster: ClusterTopics, group_id: str) -> tuple[tuple[str, str], ...]:
    """The settings on which the assignment rests, sorted."""
    settings = [(STANDBYS, str(cluster.group_config(group_id, "streams.num.standby.replicas")))]
    tags = cast(
        "Sequence[str]", cluster.group_value(group_id, "streams.rack.aware.assignment.tags")
    )
    if tags:
        settings.append((TAGS, ",".join(tags)))
    return tuple(settings)


def wait_ms(cluster: ClusterTopics, group: StreamsGroup, wall_ms: int) -> int:
    """How long until the next target assignment may be computed."""
    interval_ms = cluster.group_config(group.group_id, "streams.assignment.interval.ms")
    computed_ms = group.target_epoch.wall_ms
    since_ms = wall_ms - computed_ms
    return interval_ms - since_ms if computed_ms and 0 <= since_ms < interval_ms else 0


def current_target(
    group: StreamsGroup, member: StreamsMember | None = None, replaced: str | None = None
) -> TargetAssignment:
    """The present target, with `member` as it is after the operation, in the place of the member
    `replaced`."""
    members, tasks = dict(group.members.items()), dict(group.targets.items())
    if member is not None:
        if replaced is not None:
            members.pop(replaced, None)
            if (own := tasks.pop(replaced, None)) is not None:
                tasks[member.member_id] = own
        members[member.member_id] = member
    return TargetAssignment(group.target_epoch.epoch, tasks, members, group.task_offsets)


def next_target(
    group: StreamsGroup,
    present: TargetAssignment,
    configured: ConfiguredTopology,
    epochs: Epochs,
    wall_ms: int,
) -> tuple[TargetAssignment, list[GroupRecord]]:
    """The target of the epoch in `epochs`, and the records of what differs. While the topology is not ready
    no member has tasks."""
    members = present.members
    if configured.is_ready:
        counts = {
            part_id: TaskCount(part.task_count, part.is_stateful)
            for part_id, part in configured.subtopologies.items()
        }
        standbys = int(dict(epochs.settings).get(STANDBYS, "0"))
        tasks = assign_sticky(members, counts, standbys, present.offsets)
    else:
        tasks = dict.fromkeys(members, NOTHING)
    records = [
        target_record(group.group_id, member_id, tasks[member_id])
        for member_id in sorted(tasks)
        if present.tasks.get(member_id) != tasks[member_id]
    ]
    records.append(target_epoch_record(group.group_id, TargetEpoch(epochs.epoch, wall_ms)))
    return present._replace(epoch=epochs.epoch, tasks=tasks), records
