"""Bugs of consumer groups (KIP-848)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.group import machine, offsets
from barnabas.group.classic_group import ClassicGroup
from barnabas.group.consumer import change, deadlines, replay
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.conversion import downgrade
from barnabas.group.group_table import GroupTimer
from barnabas.group.outcome import GroupOutcome
from tests.sim.mutants.planting import Mutant, Patch


def partition_given_twice() -> list[Patch]:
    honest = vars(change)["next_assignment"]

    def takes_all_for_free(member: Any, on: Any) -> Any:
        return honest(member, replace(on, owned_among=lambda topic_id, partitions: ()))

    return [(change, "next_assignment", takes_all_for_free)]


def epoch_not_bumped() -> list[Patch]:
    honest = change.GroupChange.bump

    def stays(self: change.GroupChange, metadata_hash: int) -> None:
        honest(self, metadata_hash)
        if self.group.epoch > 1:
            self.records.pop()
            self.epoch = self.group.epoch

    return [(change.GroupChange, "bump", stays)]


def former_member_commits() -> list[Patch]:
    return [(offsets, "check_consumer_commit", lambda *given: None)]


def downgrade_begins_again() -> list[Patch]:
    honest = downgrade._converted

    def from_zero(*given: Any) -> Any:
        classic, assignments = honest(*given)
        assert isinstance(classic, ClassicGroup)
        classic.generation = 0
        return classic, assignments

    return [(downgrade, "_converted", from_zero)]


def coordinator_forgets_owners() -> list[Patch]:
    honest = vars(machine)["begin_timers"]

    def forgets(table: Any, group: Any, at: Any) -> None:
        for _, member in group.members.items():
            group.owners.change((member.assigned, member.revoking), ())
        honest(table, group, at)

    return [(machine, "begin_timers", forgets)]


def silent_member_stays() -> list[Patch]:
    honest = deadlines.on_consumer_deadline

    def waits(table: Any, kind: Any, *given: Any) -> Any:
        return GroupOutcome() if kind is GroupTimer.SESSION else honest(table, kind, *given)

    return [(machine, "on_consumer_deadline", waits)]


def partition_not_released() -> list[Patch]:
    honest = ConsumerGroup._own

    def keeps(self: ConsumerGroup, old: Any, new: Any) -> None:
        honest(self, None, new)

    return [(ConsumerGroup, "_own", keeps)]


def assignment_ahead() -> list[Patch]:
    honest = vars(change)["target_records"]

    def of_the_next(group: Any, targets: Any, epoch: int, wall_ms: int) -> Any:
        return honest(group, targets, epoch + 1, wall_ms)

    return [(change, "target_records", of_the_next)]


def ownership_half_remembered() -> list[Patch]:
    """The member was given all of them and reads on; the coordinator's state lacks the first."""
    honest = vars(replay)["_assigned"]

    def forgets(parts: Any, member_epoch: int) -> Any:
        assigned = honest(parts, member_epoch)
        for partitions in assigned.values():
            partitions.pop(0, None)
        return assigned

    return [(replay, "_assigned", forgets)]


MUTANTS = (
    Mutant("partition-given-twice", "a partition is given to its next owner before the last gave it up",
           partition_given_twice),
    Mutant("group-epoch-not-bumped", "members come and go in the same epoch of a consumer group",
           epoch_not_bumped),
    Mutant("stale-member-commits", "a commit is accepted from a former member of a consumer group",
           former_member_commits),
    Mutant("downgrade-begins-again", "a group that becomes a classic one begins with its first generation",
           downgrade_begins_again),
    Mutant("owners-forgotten", "a new coordinator forgets who owns the partitions of a consumer group",
           coordinator_forgets_owners),
    Mutant("silent-member-stays", "a consumer that falls silent is not removed from its group",
           silent_member_stays),
    Mutant("partition-not-released", "what a member gave up stays its own", partition_not_released),
    Mutant("assignment-ahead", "the target assignment claims the epoch after the group's",
           assignment_ahead),
    Mutant("ownership-half-remembered", "a coordinator forgets that a member owns the first partition",
           ownership_half_remembered),
)  # fmt: skip
