"""The promises of streams groups, and what members saw of them (KIP-1071).

A task is active at one member at a time: in one member epoch it is given to one member, and it is given to
no member while the one that has it keeps its session. A member's epoch never goes back before it joins again.

A coordinator that was deposed may still answer, and a session ends by a clock that drifts. So what a member
holds counts only against an answer of the same coordinator, and only for a part of its session after its last
heartbeat that was answered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from barnabas.group.streams.member import TaskId
from barnabas.sim.history import Violation

LEAST_OF_SESSION = 0.4
"""The part of a session that it lasts at least, by a clock that drifts."""
Owner = str
"""A static member's instance id, else a member id."""


class Heard(NamedTuple):
    """The last heartbeat of a member that was answered."""

    node: int
    """The coordinator that answered."""
    asked_ms: float


class StreamsLedger:
    """All streams groups of a run."""

    def __init__(self, session_ms: float) -> None:
        self._kept_ms = session_ms * LEAST_OF_SESSION
        self.is_lost = False
        """Whether committed metadata or the groups' topic were given up: nothing is promised any more."""
        self._given: dict[tuple[str, int, TaskId], Owner] = {}
        """Group, member epoch and active task → the member that it was given to."""
        self._holds: dict[tuple[str, Owner], frozenset[TaskId]] = {}
        """The active tasks that a member has, and has not said to have given up."""
        self._heard: dict[tuple[str, Owner], Heard] = {}
        self._epochs: dict[tuple[str, Owner], int] = {}

    def on_joins(self, group: str, owner: Owner) -> None:
        """A member joins: it has no tasks, and its epochs begin again."""
        self.on_gone(group, owner)

    def on_says(self, group: str, owner: Owner, active: Collection[TaskId]) -> None:
        """A member is about to report that `active` are all its active tasks."""
        known = self._holds.get((group, owner), frozenset())
        self._holds[group, owner] = known & frozenset(active)

    def on_gone(self, group: str, owner: Owner) -> None:
        """The member is gone, or was fenced: it has no tasks any more."""
        for known in (self._holds, self._heard, self._epochs):
            known.pop((group, owner), None)

    def on_answer(
        self,
        group: str,
        owner: Owner,
        epoch: int,
        active: Collection[TaskId] | None,
        heard: Heard,
        now_ms: float,
    ) -> None:
        """A heartbeat is answered with the member's epoch, and its active tasks where they are named. Raises
        :class:`Violation`."""
        key = (group, owner)
        before = self._epochs.get(key, 0)
        if epoch < before and not self.is_lost:
            raise Violation(f"{group}: the epoch of {owner} was {before}, and is {epoch}")
        self._epochs[key], self._heard[key] = epoch, heard
        if active is None:
            return
        for task in sorted(active):
            other = self._given.setdefault((group, epoch, task), owner)
            if other != owner and not self.is_lost:
                raise Violation(
                    f"{group}: in member epoch {epoch} task {_text(task)} was given to {other} and to"
                    f" {owner}"
                )
        self._check_holders(key, frozenset(active), heard, now_ms)
        self._holds[key] = self._holds.get(key, frozenset()) | frozenset(active)

    def _check_holders(
        self, key: tuple[str, Owner], active: frozenset[TaskId], heard: Heard, now_ms: float
    ) -> None:
        since_ms = now_ms - self._kept_ms
        if self.is_lost or heard.asked_ms < since_ms:
            return
        for other, held in sorted(self._holds.items()):
            last = self._heard.get(other)
            if other == key or other[0] != key[0] or last is None:
                continue
            both = held & active
            if both and last.node == heard.node and last.asked_ms >= since_ms:
                raise Violation(
                    f"{key[0]}: task {_text(min(both))} was given to {key[1]} by node {heard.node}, while"
                    f" {other[1]} has it, whose last heartbeat it answered {now_ms - last.asked_ms:.0f} ms"
                    " ago"
                )


def _text(task: TaskId) -> str:
    return f"{task.subtopology}_{task.partition}"
