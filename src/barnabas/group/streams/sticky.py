"""The assignor `sticky`: members keep their tasks as far as every member has its share.

Active tasks go to the member that has them, then to one that has a copy of their state, then to the process
with the least load. Standby tasks go to processes that do not have the task, first to those that had its
state. A process is one instance of the application; its members are threads.

Source: ``StickyTaskAssignor`` and ``ProcessState`` of Apache Kafka 4.4; KIP-1071. It spreads standby tasks
over processes and knows neither tags nor racks, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from barnabas.group.streams.member import HeldTasks, StreamsMember, TaskId, TaskRoles
from barnabas.group.streams.streams_group import TaskOffsets


class TaskCount(NamedTuple):
    """The tasks of one subtopology."""

    partitions: int
    is_stateful: bool


class _Previous(NamedTuple):
    """A member that has, or may have, a copy of a task's state; the best comes first."""

    rank: int
    """0 for a standby task of its own, 1 for state that was left on its disk."""
    behind: int
    """The negative sum of the offsets that it has reached."""
    member_id: str


def assign_sticky(
    members: Mapping[str, StreamsMember],
    counts: Mapping[str, TaskCount],
    standby_replicas: int,
    offsets: Mapping[str, TaskOffsets],
) -> dict[str, TaskRoles]:
    """A target for every member. `offsets` are what members reported of the state they have."""
    if not members:
        return {}
    assignment = _Assignment(members, counts, standby_replicas, offsets)
    assignment.place_active(_tasks(counts.items()))
    stateful = _tasks((part, count) for part, count in counts.items() if count.is_stateful)
    if standby_replicas:
        assignment.place_standby(stateful, standby_replicas)
    return assignment.targets()


def _tasks(counts: Iterable[tuple[str, TaskCount]]) -> list[TaskId]:
    return [TaskId(part, index) for part, count in counts for index in range(count.partitions)]


class _Quota:
    """How many tasks a member has when it has its share. Members that are full do not count further."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.share = 0
        self._divide()

    def _divide(self) -> None:
        self.share = -(-self._tasks // self._members) if self._members > 0 else 0

    def note(self, count: int) -> None:
        """A member has `count` tasks now."""
        if count == self.share:
            self._members -= 1
            self._tasks -= count
            self._divide()


class _Process:
    """The members of one process, and how many tasks they have."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self._total = 0

    @property
    def load(self) -> float:
        return self._total / len(self.counts)

    def least_loaded(self) -> str:
        return min(self.counts, key=lambda member_id: (self.counts[member_id], member_id))

    def add(self, member_id: str, task: TaskId) -> int:
        """Returns how many tasks the member has now."""
        self._total += 1
        self.tasks.add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Assignment:
    """A target assignment in the making."""

    def __init__(
        self,
        members: Mapping[str, StreamsMember],
        counts: Mapping[str, TaskCount],
        standby_replicas: int,
        offsets: Mapping[str, TaskOffsets],
    ) -> None:
        active = sum(count.partitions for count in counts.values())
        standby = sum(count.partitions for count in counts.values() if count.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + standby * standby_replicas, len(members))
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._active_before: dict[TaskId, str] = {}
        self._copies_before: dict[TaskId, list[_Previous]] = {}
        self._active: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        self._standby: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        for member_id in sorted(members):
            member = members[member_id]
            process = self._processes.get(member.process_id)
            if process is None:
                process = self._processes[member.process_id] = _Process(member.process_id)
            process.counts[member_id] = 0
            self._process_of[member_id] = process
            self._active_before.update(dict.fromkeys(member.assigned.active, member_id))
            self._note_copies(member_id, member.assigned, offsets.get(member_id) or {})
        for found in self._copies_before.values():
            found.sort()

    def _note_copies(self, member_id: str, held: HeldTasks, offsets: TaskOffsets) -> None:
        copies = self._copies_before
        for task in held.standby:
            copies.setdefault(task, []).append(_Previous(0, -offsets.get(task, 0), member_id))
        for task, offset in offsets.items():
            if task not in held.standby:
                copies.setdefault(task, []).append(_Previous(1, -offset, member_id))

    # Active tasks

    def place_active(self, tasks: list[TaskId]) -> None:
        tasks.sort(key=lambda task: (task.partition, task.subtopology))
        tasks = [
            task for task in tasks if not self._give_active(self._active_before.get(task), task)
        ]
        tasks = [task for task in tasks if not self._give_active(self._least_copy(task), task)]
        heap = self._by_load()
        for task in sorted(tasks):
            _, process_id = heappop(heap)
            process = self._processes[process_id]
            self._add(process, process.least_loaded(), task, self._active)
            heappush(heap, (process.load, process_id))

    def _give_active(self, member_id: str | None, task: TaskId) -> bool:
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if process.counts[member_id] >= self._active_quota.share:
            return False
        self._add(process, member_id, task, self._active)
        return True

    def _add(
        self, process: _Process, member_id: str, task: TaskId, role: dict[str, set[TaskId]]
    ) -> None:
        count = process.add(member_id, task)
        role[member_id].add(task)
        if role is self._active:
            self._active_quota.note(count)
        self._quota.note(count)

    def _by_load(self) -> list[tuple[float, str]]:
        heap = [(process.load, process_id) for process_id, process in self._processes.items()]
        heapify(heap)
        return heap

    # Standby tasks

    def place_standby(self, tasks: list[TaskId], replicas: int) -> None:
        tasks.sort(key=lambda task: (task.partition, task.subtopology), reverse=True)
        left: list[tuple[TaskId, int]] = []
        for task in tasks:
            for placed in range(replicas):
                before = self._active_before.get(task)
                copy = self._least_copy(task, elsewhere=True)
                if not (self._give_standby(before, task) or self._give_standby(copy, task)):
                    left.append((task, replicas - placed))
                    break
        left.sort(reverse=True)
        heap = self._by_load()
        for task, count in left:
            for _ in range(count):
                if not self._standby_at_least_load(heap, task):
                    break  # every process has it: more copies would be no safer

    def _give_standby(self, member_id: str | None, task: TaskId) -> bool:
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if task in process.tasks or process.counts[member_id] >= self._quota.share:
            return False
        self._add(process, member_id, task, self._standby)
        return True

    def _least_copy(self, task: TaskId, *, elsewhere: bool = False) -> str | None:
        """A member with a copy of the task's state: the first whose process and itself have less to do than
        those before it. `elsewhere`: at a process that has not got the task."""
        found: str | None = None
        least = 0.0, 0
        for _, _, member_id in self._copies_before.get(task, ()):
            process = self._process_of[member_id]
            if elsewhere and task in process.tasks:
                continue
            load, count = process.load, process.counts[member_id]
            if found is None or (load < least[0] and count < least[1]):
                found, least = member_id, (load, count)
        return found

    def _standby_at_least_load(self, heap: list[tuple[float, str]], task: TaskId) -> bool:
        """Add a standby task at the process with the least load of those that have not got the task."""
        passed: list[tuple[float, str]] = []
        found = False
        while heap and not found:
            entry = heappop(heap)
            process = self._processes[entry[1]]
            if task not in process.tasks:
                self._add(process, process.least_loaded(), task, self._standby)
                entry, found = (process.load, entry[1]), True
            passed.append(entry)
        for entry in passed:
            heappush(heap, entry)
        return found

    def targets(self) -> dict[str, TaskRoles]:
        return {
            member_id: TaskRoles(frozenset(self._active[member_id]), frozenset(standby))
            for member_id, standby in self._standby.items()
        }
