"""The next assignment of a member of a streams group: first it gives up, then it receives.

A step takes the member, the target assignment and what the member says it has, and returns the member one
step further, or the same member where it has to wait. A task that only changes its role at the member is
not given up first: a standby or warm-up task that becomes active is kept until it is active, an active
task that becomes a standby one is so at once.

States: STABLE → UNREVOKED_TASKS while it has to give up tasks, at its old epoch; → UNRELEASED_TASKS at the
target's epoch while others have to; → STABLE with all it shall have.

Source: ``CurrentAssignmentBuilder`` of Apache Kafka 4.4; KIP-1071, "Member reconciliation".
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.group.streams.member import (
    HeldTasks,
    StreamsMember,
    StreamsMemberState,
    TaskId,
    TaskRoles,
)
from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.wire.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class TaskReconciling:
    """The facts on which a step rests."""

    target_epoch: int
    target_tasks: TaskRoles
    group: StreamsGroup
    """It says which processes have a task."""
    owned_tasks: TaskRoles | None
    """The tasks that the member says it has; None where it did not say."""


def next_assignment(member: StreamsMember, on: TaskReconciling) -> StreamsMember:
    """One step. Raises FENCED_MEMBER_EPOCH where the member's state is of a later release."""
    if member.is_reconciled_to(on.target_epoch):
        return member
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if _has_not_released(on, member.revoking):
            return member
        return _compute(member, on, member.epoch + 1)
    if member.state is StreamsMemberState.UNKNOWN:
        if on.owned_tasks is None or on.owned_tasks:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in an unknown state. The member must abandon all its"
                " tasks and rejoin.",
            )
        return _compute(member, on, on.target_epoch)
    return _compute(member, on, member.epoch)


def _has_not_released(on: TaskReconciling, revoking: HeldTasks) -> bool:
    """Whether the member has, or may have, tasks that it shall give up."""
    return on.owned_tasks is None or revoking.overlaps(on.owned_tasks)


def _compute(member: StreamsMember, on: TaskReconciling, epoch: int) -> StreamsMember:
    had, target = member.assigned, on.target_tasks
    free, waits = _free(member, on)
    granted = set(free.active)
    standby, warmup = set(free.standby), set(free.warmup)
    kept_standby, kept_warmup = had.standby & target.standby, had.warmup & target.warmup
    # A change of role from active to standby, or between standby and warm-up, happens at once.
    kept_standby |= {task for task in standby if task in had.active or task in had.warmup}
    kept_warmup |= {task for task in warmup if task in had.standby}
    becoming = had.standby & target.active, had.warmup & target.active
    revoking = HeldTasks(
        {task: since for task, since in had.active.items() if task not in target.active},
        had.standby - target.standby - kept_warmup - becoming[0],
        had.warmup - target.warmup - kept_standby - becoming[1],
    )
    revokes = bool(revoking) and _has_not_released(on, revoking)
    if revokes:
        granted.clear()
    kept_standby |= becoming[0] - granted
    kept_warmup |= becoming[1] - granted
    kept = {task: since for task, since in had.active.items() if task in target.active}
    if revokes:
        held = HeldTasks(kept, kept_standby, kept_warmup)
        return member.at_epoch(epoch, StreamsMemberState.UNREVOKED_TASKS, held, revoking)
    kept.update(dict.fromkeys(sorted(granted), on.target_epoch))
    state = StreamsMemberState.UNRELEASED_TASKS if waits else StreamsMemberState.STABLE
    held = HeldTasks(kept, kept_standby | standby, kept_warmup | warmup)
    return member.at_epoch(on.target_epoch, state, held)


def _free(member: StreamsMember, on: TaskReconciling) -> tuple[TaskRoles, bool]:
    """The tasks of the target that the member does not have and may have now, and whether it has to wait for
    others. A task may not be at one process in two roles, nor be active at two."""
    had, target, group, process = member.assigned, on.target_tasks, on.group, member.process_id

    def standby_by_other(task: TaskId) -> bool:
        return process in group.standby_at(task) and task not in had.standby

    def warmup_by_other(task: TaskId) -> bool:
        return process in group.warmup_at(task) and task not in had.warmup

    lacking = TaskRoles(
        target.active - had.active.keys(),
        target.standby - had.standby,
        target.warmup - had.warmup,
    )
    free = TaskRoles(
        frozenset(
            task
            for task in lacking.active
            if not (group.active_at(task) or standby_by_other(task) or warmup_by_other(task))
        ),
        frozenset(
            task
            for task in lacking.standby
            if not (
                (process in group.active_at(task) and task not in had.active)
                or process in group.standby_at(task)
                or warmup_by_other(task)
            )
        ),
        frozenset(
            task
            for task in lacking.warmup
            if not (
                process in group.active_at(task)
                or standby_by_other(task)
                or process in group.warmup_at(task)
            )
        ),
    )
    return free, free != lacking
