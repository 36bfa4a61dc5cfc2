"""Where the replicas of new partitions go.

Two rules, both even within one creation:

* `place_round_robin`, the older rule, for clusters where no broker (or not every broker) names a rack: the
  first replica of partition p goes to broker (start + p), the others follow at a distance that grows by one
  each time the partitions have gone round, so that one broker's partners change.
* `place_striped` (KIP-631), for racks: racks are taken in turn from a random start; within a rack
  its brokers are taken in turn. The first replica's rack moves on by one with each
  partition, so leaders spread as well.

Both start at random. Fenced brokers are avoided: they take a replica only where too few unfenced
ones exist, never the first one. Cordoned brokers (every log directory cordoned, KIP-1066) never
take one. Never two replicas of a partition on one broker, and as many racks as there are, up to
the replication factor.

Bounds, for one creation of P partitions with replication factor F over N usable brokers: with the
round-robin rule, and with the striped rule over racks of equal size, replicas per broker differ
by at most 1, and so do leaders, as long as P·F and P cover all. For racks of unequal size each rack takes
the same number of replicas (±1), so a broker of a small rack takes up to (largest rack ÷ its rack)
times those of the largest; many small topics differ like independent random starts, about √(topics).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.ports import Rng
from barnabas.wire.errors import ErrorCode, KafkaError


class UsableBroker(NamedTuple):
    """A broker that may take replicas."""

    id: int
    rack: str | None
    fenced: bool


def place(
    brokers: Iterable[UsableBroker],
    partitions: int,
    factor: int,
    rng: Rng,
    *,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Replicas of each new partition, the preferred leader first.

    Raises KafkaError INVALID_REPLICATION_FACTOR with both numbers where there are too few brokers.
    """
    usable = sorted(brokers)
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
    racks = {broker.rack for broker in usable}
    if None in racks or len(racks) == 1:
        return place_round_robin(usable, partitions, factor, rng, first_partition=first_partition)
    return place_striped(usable, partitions, factor, rng)


def place_round_robin(
    brokers: Sequence[UsableBroker],
    partitions: int,
    factor: int,
    rng: Rng,
    *,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """The rule for brokers without racks."""
    live = [broker.id for broker in brokers if not broker.fenced]
    fenced = [broker.id for broker in brokers if broker.fenced]
    count = len(live)
    start = rng.randrange(count)
    shift = rng.randrange(count)
    placed = []
    for p in range(partitions):
        at = start + first_partition + p
        if p and at % count == start % count:
            shift += 1
        replicas = [live[at % count]]
        for step in range(min(factor, count) - 1):
            distance = 1 + (shift + step) % (count - 1)
            replicas.append(live[(at + distance) % count])
        for extra in range(factor - count):
            replicas.append(fenced[(at + extra) % len(fenced)])
        placed.append(tuple(replicas))
    return placed


class _Ring:
    """Brokers in a fixed order, taken in turn; each round begins one further on."""

    __slots__ = ("ids", "_at")

    def __init__(self, ids: list[int], at: int) -> None:
        self.ids = ids
        self._at = at

    def take(self, taken: Sequence[int]) -> int | None:
        """The next one that is not among `taken`."""
        for _ in range(len(self.ids)):
            broker = self.ids[self._at % len(self.ids)]
            self._at += 1
            if broker not in taken:
                return broker
        return None


def place_striped(
    brokers: Sequence[UsableBroker], partitions: int, factor: int, rng: Rng
) -> list[tuple[int, ...]]:
    """The rule for brokers with racks."""
    names = sorted({broker.rack or "" for broker in brokers})
    first = rng.randrange(len(names))
    names = names[first:] + names[:first]
    live, fenced, leaders = {}, {}, {}
    for name in names:
        in_rack = [broker for broker in brokers if (broker.rack or "") == name]
        up = [broker.id for broker in in_rack if not broker.fenced]
        down = [broker.id for broker in in_rack if broker.fenced]
        at = rng.randrange(len(up)) if up else 0
        live[name], leaders[name] = _Ring(up, at), _Ring(up, at)
        fenced[name] = _Ring(down, rng.randrange(len(down)) if down else 0)
    with_live = [name for name in names if live[name].ids]
    placed = []
    for p in range(partitions):
        placed.append(_stripe(p, factor, names, with_live, live, fenced))
    return placed


def _stripe(
    p: int,
    factor: int,
    names: list[str],
    with_live: list[str],
    live: dict[str, _Ring],
    fenced: dict[str, _Ring],
) -> tuple[int, ...]:
    """One partition: its leader from the racks with live brokers in turn, then rack after rack."""
    lead = with_live[p % len(with_live)]
    replicas = [live[lead].take(())]
    at = names.index(lead) + 1
    for rings in (live, fenced):
        stalled = 0
        while len(replicas) < factor and stalled < len(names):
            broker = rings[names[at % len(names)]].take(replicas)  # type: ignore[arg-type]
            at += 1
            stalled = 0 if broker is not None else stalled + 1
            if broker is not None:
                replicas.append(broker)
    return tuple(replicas)  # type: ignore[arg-type]


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
