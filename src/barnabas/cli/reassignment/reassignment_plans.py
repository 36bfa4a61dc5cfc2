"""Plans of reassignments: drain a broker, balance a cluster, change a replication factor.

Pure functions from the present assignment to the wanted one, for tools: nothing here talks to a
cluster. A plan moves as little as it can, keeps every partition on as many racks as it was or
could be, and never puts two replicas of a partition on one broker. A broker that names no rack counts as
one of its own. The order of replicas matters: the first one is the preferred leader; `balance` evens
these out, `drain` shares those of the brokers that leave out evenly, `with_factor` keeps each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.types import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


@dataclass(slots=True)
class Brokers:
    """The brokers that there are, with their racks (None where they name none)."""

    racks: Mapping[int, str | None]
    closed: Collection[int] = ()
    """Those that take no replica, while they may keep what they have: fenced or cordoned."""
    load: dict[int, int] = field(default_factory=dict)
    """Replicas held, kept up while a plan is made."""
    leads: dict[int, int] = field(default_factory=dict)
    """Partitions preferred."""

    def count(self, assignment: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Take the present assignment in."""
        for broker in self.racks:
            self.load.setdefault(broker, 0)
            self.leads.setdefault(broker, 0)
        for replicas in assignment.values():
            for broker in replicas:
                self.load[broker] = self.load.get(broker, 0) + 1
            if replicas:
                self.leads[replicas[0]] = self.leads.get(replicas[0], 0) + 1

    def rack(self, broker: int) -> str | int:
        """Its rack, or itself."""
        named = self.racks.get(broker)
        return broker if named is None else named

    def open(self) -> list[int]:
        """Those that take replicas."""
        return [broker for broker in self.racks if broker not in self.closed]

    def best(self, present: Iterable[int]) -> int | None:
        """The broker for one more replica of a partition on `present`: one in a rack without a replica
        first, then the least loaded, then the lowest id. None if no broker is left."""
        held = list(present)
        racks = {self.rack(broker) for broker in held}
        candidates = [broker for broker in self.open() if broker not in held]
        if not candidates:
            return None
        return min(candidates, key=lambda b: (self.rack(b) in racks, self.load[b], b))

    def worst(self, replicas: Sequence[int]) -> int:
        """Which of `replicas` after the first goes: one whose rack has most of them, since the others
        stand for racks that have fewer; then one that takes nothing, the most loaded, the highest id."""
        shared = Counter([self.rack(broker) for broker in replicas])
        return max(
            replicas[1:],
            key=lambda b: (shared[self.rack(b)], b in self.closed, self.load.get(b, 0), b),
        )


def drain(
    assignment: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    leaving: Iterable[int],
    closed: Collection[int] = (),
) -> Assignment:
    """Move every replica off `leaving`; what is not on them stays. `racks` names the brokers that
    stay or leave, `closed` those that take nothing. Raises ValueError where too few brokers remain for
    a partition."""
    gone = set(leaving)
    brokers = Brokers(
        {broker: rack for broker, rack in sorted(racks.items()) if broker not in gone}, closed
    )
    brokers.count(assignment)
    plan: Assignment = {}
    orphans: Assignment = {}
    for partition in sorted(assignment):
        replicas = list(assignment[partition])
        for at, broker in enumerate(replicas):
            if broker not in gone:
                continue
            keep = [b for b in replicas if b not in gone]
            taken = brokers.best(keep)
            if taken is None:
                raise ValueError(
                    f"{partition} has {len(replicas)} replicas and only {len(brokers.open())}"
                    " brokers remain that take any"
                )
            replicas[at] = taken
            brokers.load[taken] += 1
        if tuple(replicas) != tuple(assignment[partition]):
            plan[partition] = tuple(replicas)
            if assignment[partition][0] in gone:
                orphans[partition] = tuple(replicas)
                brokers.leads[replicas[0]] += 1
    _even_leaders(orphans, brokers)
    return plan | orphans


def balance(
    assignment: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    closed: Collection[int] = (),
) -> Assignment:
    """Even out replicas and preferred leaders with few moves: until no broker holds two replicas
    more than another that could take one, and likewise for preferred leaders (which move by
    changing the order, without copying anything). `closed` brokers take nothing."""
    brokers = Brokers(dict(sorted(racks.items())), closed)
    brokers.count(assignment)
    target = {partition: tuple(replicas) for partition, replicas in assignment.items()}
    _even_replicas(target, brokers)
    _even_leaders(target, brokers)
    return {p: target[p] for p in sorted(target) if target[p] != tuple(assignment[p])}


def _even_replicas(target: Assignment, brokers: Brokers) -> None:
    held: dict[int, list[TopicPartition]] = {broker: [] for broker in brokers.racks}
    for partition in sorted(target):
        for broker in target[partition]:
            held.setdefault(broker, []).append(partition)
    moved = True
    while moved:
        moved = False
        for giver in sorted(held, key=lambda b: (-brokers.load.get(b, 0), b)):
            if giver in brokers.racks and _give_one(giver, target, held, brokers):
                moved = True
                break


def _give_one(
    giver: int, target: Assignment, held: dict[int, list[TopicPartition]], brokers: Brokers
) -> bool:
    """Move one replica from `giver` to a broker that has at least two fewer and may take it."""
    takers = sorted(brokers.open(), key=lambda b: (brokers.load[b], b))
    for taker in takers:
        if brokers.load[giver] - brokers.load[taker] < 2:
            return False
        for partition in held[giver]:
            replicas = target[partition]
            if taker not in replicas and keeps_racks(replicas, giver, taker, brokers):
                target[partition] = tuple([taker if b == giver else b for b in replicas])
                held[giver].remove(partition)
                held[taker].append(partition)
                brokers.load[giver] -= 1
                brokers.load[taker] += 1
                if replicas[0] == giver:
                    brokers.leads[giver] -= 1
                    brokers.leads[taker] += 1
                return True
    return False


def keeps_racks(replicas: Sequence[int], giver: int, taker: int, brokers: Brokers) -> bool:
    """Whether the partition is on as many racks after the move."""
    before = {brokers.rack(b) for b in replicas}
    after = {brokers.rack(b) for b in replicas if b != giver} | {brokers.rack(taker)}
    return len(after) >= len(before)


def _even_leaders(target: Assignment, brokers: Brokers) -> None:
    """Reorder replicas so that no broker is preferred leader two or more times more often than another
    replica's broker. Never prefers a broker that does not exist."""
    leads = brokers.leads
    moved = True
    while moved:
        moved = False
        for partition in sorted(target):
            replicas = target[partition]
            if not replicas:
                continue
            first = replicas[0]
            known = [broker for broker in replicas if broker in brokers.racks]
            least = min(known, key=lambda b: (leads.get(b, 0), b), default=first)
            if leads.get(first, 0) - leads.get(least, 0) >= 2:
                target[partition] = (least, *[b for b in replicas if b != least])
                leads[first] -= 1
                leads[least] = leads.get(least, 0) + 1
                moved = True


def with_factor(
    assignment: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    factor: int,
    closed: Collection[int] = (),
) -> Assignment:
    """Grow to or shrink to `factor` replicas each; the preferred leader stays, `closed` brokers take
    nothing. Raises ValueError."""
    if not 1 <= factor <= len(racks):
        raise ValueError(f"a replication factor of {factor} needs as many of {len(racks)} brokers")
    brokers = Brokers(dict(sorted(racks.items())), closed)
    brokers.count(assignment)
    plan: Assignment = {}
    for partition in sorted(assignment):
        replicas = list(assignment[partition])
        while len(replicas) > factor:
            last = brokers.worst(replicas)
            replicas.remove(last)
            brokers.load[last] -= 1
        while len(replicas) < factor:
            taken = brokers.best(replicas)
            if taken is None:
                raise ValueError(
                    f"{partition} cannot have {factor} replicas: only {len(brokers.open())} of"
                    f" {len(racks)} brokers take any"
                )
            replicas.append(taken)
            brokers.load[taken] += 1
        if tuple(replicas) != tuple(assignment[partition]):
            plan[partition] = tuple(replicas)
    return plan


def moved_replicas(
    before: Mapping[TopicPartition, Sequence[int]], plan: Mapping[TopicPartition, Sequence[int]]
) -> int:
    """Replicas that have to be copied."""
    return sum(len([b for b in plan[p] if b not in before[p]]) for p in plan)
