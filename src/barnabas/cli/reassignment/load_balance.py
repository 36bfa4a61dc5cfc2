"""A plan that evens out the load of brokers: bytes on disk, bytes written per second, replicas, leaders.

Pure functions from the present assignment and what each partition weighs to the wanted assignment, for
`barnabas cluster balance`. The load of a broker is counted in kinds, each relative to the mean of all
brokers, so that gigabytes and replicas can be added up. The imbalance is the sum of the squared differences
from the mean. The plan takes the replica whose move lowers the imbalance most, again and again, until every
kind is within the tolerance or no move lowers it: few moves, the heavy ones first. No move puts a partition
on fewer racks than it was on, or two of its replicas on one broker, or anything on a broker that takes no
replicas. Leaders are evened out afterwards by another order of replicas, which copies nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from barnabas.cli.reassignment.reassignment_plans import Assignment, Brokers, keeps_racks
from barnabas.types import TopicPartition

CANDIDATES_MAX = 64
LEADS_PER_PARTITION_MAX = 2
"""Bounds the search; each step lowers the imbalance, so that it ends earlier."""


class Weight(NamedTuple):
    """The load of one replica of a partition."""

    bytes: float
    bytes_per_s: float


NOTHING = Weight(0.0, 0.0)


class BrokerLoad(NamedTuple):
    """The load of one broker."""

    bytes: float
    bytes_per_s: float
    replicas: int
    leaders: int
    leader_bytes_per_s: float


class Loads:
    """The loads of brokers by kind while a plan is made, and what puts them there: the heaviest first.

    `brokers` are those that take replicas, and the means are theirs: moves change no sum. A search looks at
    `CANDIDATES_MAX` moves that help, of the heaviest parts to the least loaded brokers: with ten thousand
    partitions a look at every move would take minutes.
    """

    def __init__(
        self, brokers: Iterable[int], parts: Mapping[TopicPartition, Sequence[float]], kinds: int
    ) -> None:
        self.brokers = list(brokers)
        self.totals = {broker: [0.0] * kinds for broker in self.brokers}
        self._parts = parts
        self._held: dict[int, list[tuple[float, TopicPartition]]] = {b: [] for b in self.brokers}
        self._means = [0.0] * kinds

    def place(self, holders: Iterable[tuple[TopicPartition, int]]) -> None:
        """Take in who holds what at the beginning."""
        placed = [(tp, broker) for tp, broker in holders if broker in self.totals]
        for tp, broker in placed:
            self._add(tp, broker, 1)
        columns = zip(*self.totals.values(), strict=True)
        self._means = [sum(column) / len(self.brokers) for column in columns]
        for tp, broker in placed:
            self._held[broker].append(self._entry(tp))
        for entries in self._held.values():
            entries.sort()

    def _entry(self, tp: TopicPartition) -> tuple[float, TopicPartition]:
        shares = zip(self._parts[tp], self._means, strict=True)
        return -sum(load / mean for load, mean in shares if mean), tp

    def relative(self, broker: int) -> list[float]:
        """How far the broker is from the mean, by kind: 0.5 is half as much again."""
        pairs = zip(self.totals[broker], self._means, strict=True)
        return [load / mean - 1 if mean else 0.0 for load, mean in pairs]

    def gain(self, tp: TopicPartition, giver: int, taker: int) -> float:
        """The amount by which a move lowers the imbalance."""
        gained = 0.0
        for load, from_, to, mean in zip(
            self._parts[tp], self.totals[giver], self.totals[taker], self._means, strict=True
        ):
            if mean:
                part = load / mean
                gained += 2 * part * ((from_ - to) / mean - part)
        return gained

    def move(self, tp: TopicPartition, giver: int, taker: int) -> None:
        self._add(tp, giver, -1)
        self._add(tp, taker, 1)
        self._held[giver].remove(self._entry(tp))
        insort(self._held[taker], self._entry(tp))

    def _add(self, tp: TopicPartition, broker: int, sign: int) -> None:
        for kind, load in enumerate(self._parts[tp]):
            self.totals[broker][kind] += sign * load

    def is_even(self, tolerance: float) -> bool:
        return all(abs(part) <= tolerance for b in self.brokers for part in self.relative(b))

    def best(
        self, tolerance: float, may: Callable[[TopicPartition, int, int], bool]
    ) -> _Move | None:
        """The best move that `may` be made, off the most loaded broker from which any helps."""
        if self.is_even(tolerance):
            return None
        takers = sorted(self.brokers, key=lambda b: (sum(self.relative(b)), b))
        for giver in sorted(self.brokers, key=lambda b: (-max(self.relative(b)), b)):
            moves = list(islice(self._off(giver, takers, tolerance, may), CANDIDATES_MAX))
            if moves:
                return max(moves, key=lambda move: (move.gain, move.partition, -move.taker))
        return None

    def _off(
        self,
        giver: int,
        takers: Sequence[int],
        tolerance: float,
        may: Callable[[TopicPartition, int, int], bool],
    ) -> Iterator[_Move]:
        """Moves whose gain is worth the copy: what the tolerance allows anyway moves nothing."""
        for lightness, tp in self._held[giver]:
            worth = -lightness * tolerance / 2
            for taker in takers:
                gain = self.gain(tp, giver, taker)
                if gain > worth and may(tp, giver, taker):
                    yield _Move(gain, tp, giver, taker)


class _Move(NamedTuple):
    gain: float
    partition: TopicPartition
    giver: int
    taker: int


def even_out(
    assignment: Mapping[TopicPartition, Sequence[int]],
    weights: Mapping[TopicPartition, Weight],
    racks: Mapping[int, str | None],
    closed: Collection[int] = (),
    *,
    tolerance: float = 0.1,
    moves_max: int = 1_000,
    still: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> Assignment:
    """The partitions that change, with their new replicas. `racks` names the brokers, `closed` those that
    take nothing. At most `moves_max` replicas are copied. The partitions of `still` weigh, and do not
    move."""
    brokers = Brokers(dict(sorted(racks.items())), closed)
    target = {tp: tuple(assignment[tp]) for tp in sorted(assignment)}
    fixed = {tp: tuple(replicas) for tp, replicas in (still or {}).items()}
    if brokers.open():
        whole = target | fixed
        _even_replicas(whole, fixed, weights, brokers, tolerance, moves_max)
        _even_leaders(whole, fixed, weights, brokers, tolerance)
        target = {tp: whole[tp] for tp in target}
    return {tp: replicas for tp, replicas in target.items() if replicas != tuple(assignment[tp])}


def _even_replicas(
    target: Assignment,
    fixed: Collection[TopicPartition],
    weights: Mapping[TopicPartition, Weight],
    brokers: Brokers,
    tolerance: float,
    moves_max: int,
) -> None:
    loads = Loads(brokers.open(), {tp: (*weights.get(tp, NOTHING), 1.0) for tp in target}, 3)
    loads.place((tp, broker) for tp, replicas in target.items() for broker in replicas)

    def may(tp: TopicPartition, giver: int, taker: int) -> bool:
        if tp in fixed or taker in target[tp]:
            return False
        return keeps_racks(target[tp], giver, taker, brokers)

    for _ in range(moves_max):
        best = loads.best(tolerance, may)
        if best is None:
            return
        _, tp, giver, taker = best
        target[tp] = tuple([taker if broker == giver else broker for broker in target[tp]])
        loads.move(tp, giver, taker)


def _even_leaders(
    target: Assignment,
    fixed: Collection[TopicPartition],
    weights: Mapping[TopicPartition, Weight],
    brokers: Brokers,
    tolerance: float,
) -> None:
    """Prefer other leaders while that evens out how many partitions brokers lead and what is written to
    these. A broker that takes no replicas becomes no preferred leader."""
    parts = {tp: (weights.get(tp, NOTHING).bytes_per_s, 1.0) for tp in target}
    loads = Loads(brokers.open(), parts, 2)
    loads.place((tp, replicas[0]) for tp, replicas in target.items() if replicas)

    def may(tp: TopicPartition, giver: int, taker: int) -> bool:
        return tp not in fixed and taker in target[tp]

    for _ in range(LEADS_PER_PARTITION_MAX * len(target)):
        best = loads.best(tolerance, may)
        if best is None:
            return
        _, tp, giver, taker = best
        target[tp] = (taker, *[broker for broker in target[tp] if broker != taker])
        loads.move(tp, giver, taker)


def loads_of(
    assignment: Mapping[TopicPartition, Sequence[int]],
    weights: Mapping[TopicPartition, Weight],
    brokers: Collection[int],
) -> dict[int, BrokerLoad]:
    """The load of each broker; the first replica of a partition counts as its leader."""
    sums = {broker: [0.0, 0.0, 0, 0, 0.0] for broker in sorted(brokers)}
    for tp, replicas in assignment.items():
        weight = weights.get(tp, NOTHING)
        for at, broker in enumerate(replicas):
            if broker not in sums:
                continue
            load = sums[broker]
            load[0] += weight.bytes
            load[1] += weight.bytes_per_s
            load[2] += 1
            if not at:
                load[3] += 1
                load[4] += weight.bytes_per_s
    return {
        broker: BrokerLoad(load[0], load[1], int(load[2]), int(load[3]), load[4])
        for broker, load in sums.items()
    }


def spread_of(values: Collection[float]) -> float:
    """How far the most loaded broker is above the mean: 0 is even, 0.5 half as much again."""
    mean = sum(values) / len(values) if values else 0.0
    return max(values) / mean - 1 if mean else 0.0
