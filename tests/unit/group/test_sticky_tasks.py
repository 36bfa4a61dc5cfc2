"""The assignor of streams groups spreads tasks evenly and moves as few as that allows."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from barnabas.group.streams.member import HeldTasks, StreamsMember, TaskId, TaskRoles
from barnabas.group.streams.sticky import TaskCount, assign_sticky
from barnabas.group.streams.streams_group import TaskOffsets


def members_of(processes: Mapping[str, int]) -> dict[str, StreamsMember]:
    """Members `p1.0`, `p1.1`, ... of each process, by its number of threads."""
    return {
        f"{process}.{index}": StreamsMember(f"{process}.{index}", process_id=process)
        for process, count in processes.items()
        for index in range(count)
    }


def assign(
    members: Mapping[str, StreamsMember],
    counts: Mapping[str, TaskCount],
    standbys: int = 0,
    offsets: Mapping[str, TaskOffsets] | None = None,
) -> dict[str, TaskRoles]:
    return assign_sticky(members, counts, standbys, offsets or {})


def holding(
    members: Mapping[str, StreamsMember], targets: Mapping[str, TaskRoles]
) -> dict[str, StreamsMember]:
    """The members once they have their targets."""
    return {
        member_id: StreamsMember(
            member_id,
            process_id=member.process_id,
            assigned=HeldTasks(
                dict.fromkeys(targets[member_id].active, 1), targets[member_id].standby
            ),
        )
        for member_id, member in members.items()
        if member_id in targets
    }


def check(
    members: Mapping[str, StreamsMember],
    counts: Mapping[str, TaskCount],
    standbys: int,
    targets: Mapping[str, TaskRoles],
) -> None:
    """Each task is active once; standby copies are at other processes, as many as there can be."""
    wanted = {TaskId(part, i) for part, count in counts.items() for i in range(count.partitions)}
    active = [task for target in targets.values() for task in target.active]
    assert sorted(active) == sorted(wanted)
    at: dict[TaskId, list[str]] = {}
    for member_id, target in targets.items():
        for task in (*target.active, *target.standby):
            at.setdefault(task, []).append(members[member_id].process_id)
    processes = len({member.process_id for member in members.values()})
    for task, found in at.items():
        assert len(set(found)) == len(found), f"{task} is twice at one process"
        copies = standbys if counts[task.subtopology].is_stateful else 0
        assert len(found) == min(1 + copies, processes)


def test_equal_members_get_equal_shares() -> None:
    targets = assign(members_of({"p": 2, "q": 2}), {"0": TaskCount(8, False)})
    assert [len(target.active) for target in targets.values()] == [2, 2, 2, 2]


def test_a_process_with_more_threads_gets_more_tasks() -> None:
    targets = assign(members_of({"p": 3, "q": 1}), {"0": TaskCount(8, False)})
    assert sorted(len(target.active) for target in targets.values()) == [2, 2, 2, 2]


def test_no_member_gets_nothing() -> None:
    assert assign({}, {"0": TaskCount(3, True)}, 1) == {}


def test_tasks_stay_where_they_are_when_a_member_comes() -> None:
    counts = {"0": TaskCount(6, False)}
    members = members_of({"p": 1, "q": 1})
    before = assign(members, counts)
    grown = {**holding(members, before), **members_of({"r": 1})}
    after = assign(grown, counts)
    assert [len(target.active) for target in after.values()] == [2, 2, 2]
    assert all(after[member_id].active < before[member_id].active for member_id in before)


def test_a_task_goes_to_the_member_with_its_standby_copy() -> None:
    counts = {"0": TaskCount(4, True)}
    members = members_of({"p": 1, "q": 1, "r": 1})
    before = assign(members, counts, 1)
    left = {m: member for m, member in holding(members, before).items() if m != "r.0"}
    after = assign(left, counts, 1)
    check(left, counts, 1, after)
    for member_id in left:
        assert before[member_id].active <= after[member_id].active


def test_state_on_a_disk_decides_where_a_standby_task_goes() -> None:
    counts = {"0": TaskCount(1, True)}
    members = members_of({"p": 1, "q": 1, "r": 1})
    members = holding(members, {**assign(members, counts)})
    active = next(m for m, member in members.items() if member.assigned.active)
    others = sorted(members.keys() - {active})
    for first, second in (others, others[::-1]):
        offsets = {first: {TaskId("0", 0): 10}, second: {TaskId("0", 0): 90}}
        targets = assign(members, counts, 1, offsets)
        assert targets[second].standby == {TaskId("0", 0)}, "it has read more of the changelog"


@pytest.mark.parametrize("seed", range(40))
def test_every_assignment_is_whole_and_settles(seed: int) -> None:
    rng = random.Random(seed)
    counts = {
        str(part): TaskCount(rng.randint(1, 7), rng.random() < 0.6)
        for part in range(rng.randint(1, 4))
    }
    standbys = rng.randint(0, 2)
    members = members_of({f"p{index}": rng.randint(1, 3) for index in range(rng.randint(1, 5))})
    for _ in range(4):
        targets = assign(members, counts, standbys)
        check(members, counts, standbys, targets)
        members = holding(members, targets)
        again = assign(members, counts, standbys)
        active = {m: target.active for m, target in targets.items()}
        assert {m: target.active for m, target in again.items()} == active, "active tasks stay"
        for member_id in rng.sample(sorted(members), min(len(members) - 1, rng.randint(0, 2))):
            del members[member_id]
        members |= members_of({f"n{rng.randint(0, 99)}": rng.randint(1, 2)})
