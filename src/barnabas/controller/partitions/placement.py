"""The placement of the replicas of new partitions.

Never two replicas of a partition on one broker; fenced brokers take one only where there are too
few others, and never lead; cordoned brokers (every log directory cordoned, KIP-1066) are not
offered here at all. Both rules start at a random broker.

* `place_round_robin`, the older rule, where not every broker names a rack. Leaders go round the
  brokers. The other replicas go to the broker with the fewest, looking backwards from the leader (brokers
  whose turn to lead is furthest away), so that every prefix of a creation is even. With each
  round the order is a longer stride through the brokers (the growing shift): one broker's
  partners change from round to round.
* `place_striped` (KIP-631), where all do. The leader's rack moves on by one with each partition,
  and within a rack its brokers take turns. The other replicas go to the racks that have none yet
  of this partition, fewest replicas first, then within the rack to the broker with the fewest; ties
  go to those whose turn to lead is furthest away.

Bounds, for one creation over N brokers: without racks, and with racks of equal size, replicas per
broker differ by at most 1 and leaders by at most 1, whatever the number of partitions. With racks
of unequal size each rack leads equally often (±1), so a broker leads in proportion to one over its
rack's size; where the replication factor is no more than the number of racks, racks hold equally
many replicas within the factor. Many small topics are independent: over T topics of one partition a
broker has T/N ± 5·√(T/N) of any kind (a bound that random starts break once in a million).

Source: Kafka's ``StripedReplicaPlacer``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from barnabas.ports import Rng
from barnabas.wire.errors import ErrorCode, KafkaError


class UsableBroker(NamedTuple):
    """A broker that may take replicas."""

    id: int
    rack: str | None
    fenced: bool


def place(
    brokers: Iterable[UsableBroker], partitions: int, factor: int, rng: Rng
) -> list[tuple[int, ...]]:
    """The replicas of all partitions, in a list; see `placing`."""
    return list(placing(brokers, partitions, factor, rng))


def placing(
    brokers: Iterable[UsableBroker], partitions: int, factor: int, rng: Rng
) -> Iterator[tuple[int, ...]]:
    """Yield the replicas of each new partition, the preferred leader first. Random numbers are
    drawn at the call. Raises KafkaError INVALID_REPLICATION_FACTOR with both numbers if there are
    too few brokers.
    """
    usable = sorted(brokers, key=lambda broker: broker.id)
    live = [broker for broker in usable if not broker.fenced]
    if factor <= 0:
        raise _invalid(f"Replication factor must be larger than 0, not {factor}.")
    if factor > len(usable):
        raise _invalid(
            f"The target replication factor of {factor} cannot be reached because only"
            f" {len(usable)} broker(s) are registered or some brokers have all their log"
            " directories cordoned."
        )
    if not live:
        raise _invalid(
            "All brokers are currently fenced or have all their log directories cordoned."
        )
    from_live = min(factor, len(live))
    racks = {broker.rack for broker in live}
    if None in racks or len(racks) == 1:
        placed = place_round_robin([b.id for b in live], partitions, from_live, rng)
    else:
        placed = place_striped([(b.id, b.rack or "") for b in live], partitions, from_live, rng)
    if factor == from_live:
        return placed
    return _with_fenced(placed, [b for b in usable if b.fenced], factor - from_live)


def place_round_robin(
    brokers: Sequence[int], partitions: int, factor: int, rng: Rng
) -> Iterator[tuple[int, ...]]:
    """The rule for brokers without racks; see the module."""
    count = len(brokers)
    start = rng.randrange(count)
    pattern = _even_round(count, factor, min(count, partitions))
    strides = [n for n in range(1, count + 1) if gcd(n, count) == 1]
    shift = rng.randrange(len(strides))
    rounds = (
        [brokers[(start + i * strides[n % len(strides)]) % count] for i in range(count)]
        for n in itertools.count(shift)
    )
    placed = (tuple([order[at] for at in positions]) for order in rounds for positions in pattern)
    return itertools.islice(placed, partitions)


@lru_cache(maxsize=64)
def _even_round(count: int, factor: int, partitions: int) -> tuple[tuple[int, ...], ...]:
    """Positions of the replicas of the first `partitions` partitions of one round: partition p is
    led at position p, and after each partition the counts differ by at most 1."""
    counts = [0] * count
    rounds = []
    for p in range(partitions):
        replicas = [p]
        for level in (min(counts), min(counts) + 1):
            for back in range(1, count):
                if len(replicas) == factor:
                    break
                at = (p - back) % count
                if counts[at] == level and at not in replicas:
                    replicas.append(at)
        for at in replicas:
            counts[at] += 1
        rounds.append(tuple(replicas))
    return tuple(rounds)


class _Rack:
    """One rack during a creation."""

    __slots__ = ("at", "brokers", "counts", "led", "replicas")

    def __init__(self, at: int, brokers: list[int]) -> None:
        self.at = at
        self.brokers = brokers
        self.counts = [0] * len(brokers)
        self.led = 0
        """The number of partitions led here, from which the next leader follows."""
        self.replicas = 0

    def lead(self) -> int:
        turn = self.led % len(self.brokers)
        self.led += 1
        return self._count_replica(turn)

    def follow(self, taken: Sequence[int]) -> int:
        """The broker with the fewest replicas; among several the one whose turn to lead is furthest
        away."""
        size, led, counts = len(self.brokers), self.led, self.counts
        best, rank = -1, (0, 0)
        for i, broker in enumerate(self.brokers):
            mine = (counts[i], -((i - led) % size))
            if broker not in taken and (best < 0 or mine < rank):
                best, rank = i, mine
        return self._count_replica(best)

    def _count_replica(self, i: int) -> int:
        self.counts[i] += 1
        self.replicas += 1
        return self.brokers[i]


def place_striped(
    brokers: Sequence[tuple[int, str]], partitions: int, factor: int, rng: Rng
) -> Iterator[tuple[int, ...]]:
    """The rule for brokers (id, rack) with racks; see the module."""
    names = sorted({rack for _, rack in brokers})
    first = rng.randrange(len(names))
    racks = []
    for at, name in enumerate(names[first:] + names[:first]):
        ids = [broker for broker, rack in brokers if rack == name]
        turn = rng.randrange(len(ids))
        racks.append(_Rack(at, ids[turn:] + ids[:turn]))
    return (_stripe(racks, p, factor) for p in range(partitions))


def _stripe(racks: list[_Rack], p: int, factor: int) -> tuple[int, ...]:
    count = len(racks)
    leading = racks[p % count]
    replicas = [leading.lead()]
    used = [0] * count
    used[leading.at] = 1
    while len(replicas) < factor:
        best = None
        rank = (0, 0, 0)
        for rack in racks:
            here = used[rack.at]
            if here == len(rack.brokers):
                continue
            mine = (here, rack.replicas, -((rack.at - p - 1) % count))
            if best is None or mine < rank:
                best, rank = rack, mine
        assert best is not None, "the factor is at most the number of brokers"
        used[best.at] += 1
        replicas.append(best.follow(replicas))
    return tuple(replicas)


def _with_fenced(
    placed: Iterator[tuple[int, ...]], fenced: list[UsableBroker], missing: int
) -> Iterator[tuple[int, ...]]:
    """Fill up with fenced brokers, in turn."""
    ids = [broker.id for broker in fenced]
    return (
        replicas + tuple(ids[(p + i) % len(ids)] for i in range(missing))
        for p, replicas in enumerate(placed)
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
