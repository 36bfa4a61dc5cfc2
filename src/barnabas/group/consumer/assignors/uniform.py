"""The assignor `uniform`: equal shares first, few moves second.

If all members subscribe to the same topics, each member keeps its partitions up to its quota, and
the others go to members below theirs. Otherwise a partition goes to its least loaded subscriber;
then partitions move to members that have at least two fewer, until no such move is left.

Source: ``UniformHomogeneousAssignmentBuilder`` and ``UniformHeterogeneousAssignmentBuilder`` of Apache
Kafka 4.3: the properties, not the order of their moves.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.group.consumer.assignors.spec import WORK_PER_STEP, GroupSpec, Steps, Targets
from barnabas.types import Uuid

Partition = tuple[Uuid, int]


def assign_uniform(spec: GroupSpec) -> Steps:
    """Compute a target for every member."""
    if spec.is_homogeneous:
        return _assign_homogeneous(spec)
    return _Uneven(spec).assign()


def _assign_homogeneous(spec: GroupSpec) -> Steps:
    members = list(spec.subscriptions)
    if not members:
        return {}
    topics = sorted(spec.subscriptions[members[0]])
    total = sum(spec.partitions[topic_id] for topic_id in topics)
    quota, extra = divmod(total, len(members))
    kept: dict[Uuid, set[int]] = {topic_id: set() for topic_id in topics}
    targets: Targets = {}
    rooms: list[tuple[str, int]] = []
    # Members with the most partitions keep the extra ones, so that fewer move.
    ranked = sorted(members, key=lambda member_id: -_size(spec, member_id))
    work = 0
    for rank, member_id in enumerate(ranked):
        work += quota + len(topics)
        if work > WORK_PER_STEP:
            yield
            work = 0
        room = quota + (1 if rank < extra else 0)
        targets[member_id], left = _keep(spec, member_id, topics, kept, room)
        if left:
            rooms.append((member_id, left))
    free = _Free(topics, kept, spec.partitions)
    for member_id, room in rooms:
        work += room
        if work > WORK_PER_STEP:
            yield
            work = 0
        free.give(targets[member_id], room)
    return targets


def _keep(
    spec: GroupSpec, member_id: str, topics: list[Uuid], kept: dict[Uuid, set[int]], room: int
) -> tuple[dict[Uuid, frozenset[int]], int]:
    """The partitions that the member keeps, and how many more it may get. Adds the kept ones to
    `kept`."""
    target: dict[Uuid, frozenset[int]] = {}
    previous = spec.previous.get(member_id, {})
    for topic_id in topics:
        had = previous.get(topic_id)
        if not had or not room:
            continue
        count, owned = spec.partitions[topic_id], kept[topic_id]
        keep = [index for index in sorted(had) if index < count and index not in owned][:room]
        owned.update(keep)
        room -= len(keep)
        if keep:
            target[topic_id] = had if len(keep) == len(had) else frozenset(keep)
    return target, room


class _Free:
    """The partitions that no member keeps, taken in their order."""

    def __init__(
        self, topics: list[Uuid], kept: dict[Uuid, set[int]], counts: Mapping[Uuid, int]
    ) -> None:
        self._topics = iter(topics)
        self._kept = kept
        self._counts = counts
        self._topic_id: Uuid | None = None
        self._left: list[int] = []
        """The partitions of the present topic that are left, the next one last."""

    def give(self, target: dict[Uuid, frozenset[int]], room: int) -> None:
        """Move the next partitions into `target`, up to `room`."""
        while room:
            if not self._left:
                self._topic_id = next(self._topics, None)
                if self._topic_id is None:
                    return
                owned, count = self._kept[self._topic_id], self._counts[self._topic_id]
                self._left = [i for i in range(count - 1, -1, -1) if i not in owned]
                continue
            assert self._topic_id is not None
            given = self._left[-room:]
            del self._left[-room:]
            room -= len(given)
            target[self._topic_id] = target.get(self._topic_id, frozenset()) | frozenset(given)


def _size(spec: GroupSpec, member_id: str) -> int:
    return sum(len(partitions) for partitions in spec.previous.get(member_id, {}).values())


class _Uneven:
    """The assignment of members that subscribe to different topics."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._load = dict.fromkeys(spec.subscriptions, 0)
        self._subscribers = spec.subscribers()
        self._owner: dict[Partition, str] = {}

    def assign(self) -> Steps:
        self._keep()
        per_step = max(WORK_PER_STEP // max(len(self._load), 1), 1)
        for count, place in enumerate(self._free()):
            if count % per_step == 0:
                yield
            self._own(place, self._least_loaded(place[0]))
        moved = True
        while moved:
            moved = False
            places = list(self._owner.items())
            for start in range(0, len(places), per_step):
                yield
                moved |= self._balance(places[start : start + per_step])
        targets: Targets = {member_id: {} for member_id in self._load}
        parts: dict[tuple[str, Uuid], list[int]] = {}
        for (topic_id, index), member_id in self._owner.items():
            parts.setdefault((member_id, topic_id), []).append(index)
        for (member_id, topic_id), partitions in parts.items():
            targets[member_id][topic_id] = frozenset(partitions)
        return targets

    def _keep(self) -> None:
        for member_id, topics in self._spec.subscriptions.items():
            for topic_id, partitions in sorted(self._spec.previous.get(member_id, {}).items()):
                if topic_id not in topics:
                    continue
                for index in sorted(partitions):
                    place = (topic_id, index)
                    if index < self._spec.partitions[topic_id] and place not in self._owner:
                        self._own(place, member_id)

    def _free(self) -> list[Partition]:
        """Assign the free partitions. Topics with the most partitions per subscriber come first,
        among equals those with the fewest subscribers."""

        def order(topic_id: Uuid) -> tuple[float, int, Uuid]:
            subscribers = len(self._subscribers[topic_id])
            return -self._spec.partitions[topic_id] / subscribers, subscribers, topic_id

        return [
            (topic_id, index)
            for topic_id in sorted(self._subscribers, key=order)
            for index in range(self._spec.partitions[topic_id])
            if (topic_id, index) not in self._owner
        ]

    def _own(self, place: Partition, member_id: str) -> None:
        self._owner[place] = member_id
        self._load[member_id] += 1

    def _least_loaded(self, topic_id: Uuid) -> str:
        return min(self._subscribers[topic_id], key=self._load.__getitem__)

    def _balance(self, places: list[tuple[Partition, str]]) -> bool:
        """Move partitions until the loads are balanced. Each move brings two members' loads closer
        together, so this ends."""
        moved = False
        for place, owner in places:
            other = self._least_loaded(place[0])
            if self._load[other] + 1 < self._load[owner]:
                self._load[owner] -= 1
                self._own(place, other)
                moved = True
        return moved
