"""The target assignment of a large group, computed a few milliseconds at a time.

A group of many thousand partitions is assigned by a job, a step per turn of the loop; the broker
serves other requests in between. Members learn of the assignment with the heartbeat after its last
step; the coordinator asks for that heartbeat soon. The job starts again if the group's epoch or
members change. After `RESTARTS_MAX` restarts it is done in one turn, so that it ends in any case.

Source: the offloaded assignor of KIP-1263, which uses a thread.
"""

from __future__ import annotations

from barnabas.group.consumer.assignors import finish
from barnabas.group.consumer.assignors.spec import Targets
from barnabas.group.consumer.change import ASSIGNED_AT_ONCE_MAX, GroupChange
from barnabas.group.consumer.consumer_group import Assigning, ConsumerGroup
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.outcome import GroupOutcome
from barnabas.operation import Instant

RESTARTS_MAX = 3
BETWEEN_STEPS_MS = 1.0


def assign(table: GroupTable, group: ConsumerGroup, at: Instant) -> GroupOutcome:
    """Compute the target assignment that is due, or one step of it. Members get it with their next
    heartbeat."""
    if group.is_empty or group.epoch <= group.assignment_epoch:
        group.assigning = None
        return GroupOutcome()
    change = GroupChange(table, group, at, [])
    targets = _step(change)
    if targets is None:
        key = (GroupTimer.ASSIGNMENT, group.group_id, "")
        table.timers.schedule(key, at.now_ms + BETWEEN_STEPS_MS)
        return GroupOutcome()
    group.assigning = None
    change.write_targets(targets)
    return GroupOutcome(records=change.records)


def _step(change: GroupChange) -> Targets | None:
    """Take one step, and return the targets if it was the last one."""
    group = change.group
    basis = group.epoch, tuple(member_id for member_id, _ in group.members.items())
    job = group.assigning
    if job is None or job.basis != basis:
        work, steps = change.assignment_steps(None)
        restarts = 0 if job is None else job.restarts + 1
        if work <= ASSIGNED_AT_ONCE_MAX or restarts > RESTARTS_MAX:
            return finish(steps)
        job = group.assigning = Assigning(basis, steps, restarts)
    try:
        next(job.steps)
    except StopIteration as done:
        targets: Targets = done.value
        return targets
    return None
