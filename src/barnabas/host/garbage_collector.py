"""Python's cyclic garbage collector between the turns of a node's loop, one short collection at a time.

By default the collector runs in the middle of an allocation, for a time that grows with the number
of objects: it took a third to a half of long turns. In a node it is off (`gc.disable`), and the
loop asks between its turns whether a collection is due:

* of generation 0, once `YOUNG_OBJECTS` more objects were allocated than freed. Reference counting frees what
  requests leave behind, so that is rare;
* of generation 1 or 2, once the younger generation had `COLLECTIONS_MAX` collections or they took `LONG_S`.

Each such collection takes some milliseconds and counts as a turn of its own. When one of an older generation
took long, the objects that survived it are frozen (`gc.freeze`) and not traversed again: the columns of a
million partitions cost a seventh of a second each time.

A *full* collection unfreezes everything and finds the garbage among it. It is due when twice as much memory
is in use as after the last one, and `GROWTH_BLOCKS_MIN` more: it runs at the next moment in which the loop is
idle, or at `OVERDUE_FACTOR` times that at once. So the memory that cyclic garbage holds is bounded by the
memory in use.

Invariant: between `begin` and `end` nothing else collects.

"""

from __future__ import annotations

import gc
import sys
from time import thread_time
from typing import NamedTuple

YOUNG_OBJECTS = 5_000
"""Objects allocated and not freed before generation 0 is collected: that takes a millisecond."""
COLLECTIONS_MAX = 8
"""Collections of a generation before the next older one is collected as well."""
LONG_S = 0.0025
"""CPU seconds: of one collection, after which its survivors are frozen; of several of a generation, after
which the next older one is collected as well."""
GROWTH_BLOCKS_MIN = 1_000_000
"""Blocks of memory before a full collection is due: 80 MB."""
OVERDUE_FACTOR = 4
"""A full collection does not wait for an idle moment when so many times the memory is in use that makes it
due."""
_YOUNGEST, _OLDEST = 0, 2


class Collections(NamedTuple):
    """The collections so far."""

    partial: int
    """The collections of one or two generations."""
    full: int
    longest_ms: float
    """CPU time, full ones aside."""
    longest_full_ms: float


class GarbageCollector:
    """At most one per process: the collector is the process's."""

    def __init__(self, growth_blocks_min: int = GROWTH_BLOCKS_MIN) -> None:
        self._growth_blocks_min = growth_blocks_min
        self._since_older = [0, 0]
        """The collections of each generation since the last one of an older generation."""
        self._spent_s = [0.0, 0.0]
        """The CPU seconds that the collections of each generation took."""
        self._blocks = 0
        """The blocks of memory in use when objects were frozen last."""
        self._due_at_blocks = 0
        """The blocks of memory in use that make a full collection due."""
        self.doing = ""
        """The last thing that was collected, for the log."""
        self.collections = Collections(0, 0, 0.0, 0.0)

    def begin(self) -> None:
        """From now on only `between_turns` collects. The objects of the start are frozen: they stay for as
        long as the process. (No collection before: it finds next to nothing and takes a tenth of a node's
        start.)"""
        gc.disable()
        gc.freeze()
        self._measure()

    def end(self) -> None:
        """Let the interpreter collect again."""
        gc.unfreeze()
        gc.enable()

    def between_turns(self, *, idle: bool) -> bool:
        """Collect if that is due; whether it was. `idle`: no request waits."""
        if gc.get_count()[0] >= YOUNG_OBJECTS:
            self._collect_due_generation()
            return True
        overdue_at = OVERDUE_FACTOR * self._due_at_blocks
        if self._blocks >= self._due_at_blocks and (idle or self._blocks >= overdue_at):
            self._collect_fully()
            return True
        return False

    def _collect_due_generation(self) -> None:
        generation = _YOUNGEST
        while generation < _OLDEST and (
            self._since_older[generation] >= COLLECTIONS_MAX or self._spent_s[generation] >= LONG_S
        ):
            self._since_older[generation], self._spent_s[generation] = 0, 0.0
            generation += 1
        took_s = self._collect(generation, f"generation {generation}")
        known = self.collections
        longest_ms = max(known.longest_ms, took_s * 1000)
        self.collections = known._replace(partial=known.partial + 1, longest_ms=longest_ms)
        if generation > _YOUNGEST and took_s >= LONG_S:
            self._freeze_survivors()
        elif generation < _OLDEST:
            self._since_older[generation] += 1
            self._spent_s[generation] += took_s

    def _collect_fully(self) -> None:
        gc.unfreeze()
        took_s = self._collect(_OLDEST, "everything")
        self._freeze_survivors()
        self._measure()
        known = self.collections
        longest_ms = max(known.longest_full_ms, took_s * 1000)
        self.collections = known._replace(full=known.full + 1, longest_full_ms=longest_ms)

    def _collect(self, generation: int, what: str) -> float:
        """Seconds of CPU that it took."""
        self.doing = what
        began_s = thread_time()
        gc.collect(generation)
        return thread_time() - began_s

    def _freeze_survivors(self) -> None:
        gc.freeze()
        self._blocks = sys.getallocatedblocks()
        self._since_older, self._spent_s = [0, 0], [0.0, 0.0]

    def _measure(self) -> None:
        """All objects were collected, or count as collected: compute when the next full collection is due."""
        self._blocks = sys.getallocatedblocks()
        self._due_at_blocks = 2 * self._blocks + self._growth_blocks_min

    def describe(self) -> dict[str, float]:
        """A summary for people and logs."""
        known = self.collections
        return {
            "collections": known.partial,
            "longest_collection_ms": round(known.longest_ms, 3),
            "full_collections": known.full,
            "longest_full_collection_ms": round(known.longest_full_ms, 3),
        }

    def __repr__(self) -> str:
        return f"GarbageCollector({self.collections})"
