"""Python's cyclic garbage collector between the turns of a node's loop, a little at a time.

Left to itself the collector runs in the midst of whatever allocates, for as long as there are objects: a
third to a half of a long turn was its work. In a node it is off, and the loop asks between its turns
whether a look is due: one at the young objects once some thousand more were allocated than freed (what
requests leave behind is freed by counting, so that is rare); one at those of middle age, or at all that
are not set apart, once the looks before it took about as long as one may. So every look stays within
some milliseconds, and counts as a turn of its own.

What such a look finds alive and took long for is set apart (frozen) and not looked at any more: the
columns of a million partitions cost a seventh of a second each time. Garbage that comes into being among
them is found by a *thorough* look at everything. It is due when there is twice as much in memory as after
the last one, and `GROWN_MIN` more: in the next moment in which the loop has nothing to do, and at four times
that at once. So what garbage there may be in cycles is bounded by what lives.

Invariant: between `begin` and `end` nothing else collects.
"""

from __future__ import annotations

import gc
import sys
from time import thread_time
from typing import NamedTuple

YOUNG = 5_000
"""Objects allocated and not freed since the last look at young ones: a look takes a millisecond."""
COLLECTIONS_MAX = 8
"""Looks between two at what is older, at the most."""
LONG_S = 0.0025
"""CPU time of a look after which what it found alive is set apart, and of several looks after which those
who survived them are looked at."""
GROWN_MIN = 1_000_000
"""Blocks of memory: 80 MB."""
FORCED = 4
"""Times what makes a thorough look due, which no idle moment is waited for."""
_YOUNGEST, _OLDEST = 0, 2


class Looks(NamedTuple):
    """What was done so far."""

    taken: int
    thorough: int
    longest_ms: float
    """But for thorough ones."""
    longest_thorough_ms: float


class GarbageCollector:
    """At most one per process: the collector is the process's."""

    def __init__(self, grown_min: int = GROWN_MIN) -> None:
        self._grown_min = grown_min
        self._looks = [0, 0]
        """By generation: looks at it since the last one at an older one."""
        self._spent_s = [0.0, 0.0]
        self._blocks = 0
        """Of memory, in use when something was last set apart."""
        self._due_at = 0
        """As many make a thorough look due."""
        self.doing = ""
        """What the last look was at."""
        self.looks = Looks(0, 0, 0.0, 0.0)

    def begin(self) -> None:
        """From now on nothing is collected but by `between_turns`. What is there now stays for as long as
        the process: it is set apart. (No look before: it finds next to nothing and takes a tenth of a node's
        start.)"""
        gc.disable()
        gc.freeze()
        self._note_all()

    def end(self) -> None:
        """As if it had never begun."""
        gc.unfreeze()
        gc.enable()

    def between_turns(self, *, idle: bool) -> bool:
        """Take a look if one is due, and say whether it was taken; `idle`: no request waits."""
        if gc.get_count()[0] >= YOUNG:
            self._look()
            return True
        if self._blocks >= self._due_at and (idle or self._blocks >= FORCED * self._due_at):
            self._look_thoroughly()
            return True
        return False

    def _look(self) -> None:
        generation = _YOUNGEST
        while generation < _OLDEST and (
            self._looks[generation] >= COLLECTIONS_MAX or self._spent_s[generation] >= LONG_S
        ):
            self._looks[generation], self._spent_s[generation] = 0, 0.0
            generation += 1
        took_s = self._collect(generation, f"generation {generation}")
        looks = self.looks
        longest_ms = max(looks.longest_ms, took_s * 1000)
        self.looks = looks._replace(taken=looks.taken + 1, longest_ms=longest_ms)
        if generation > _YOUNGEST and took_s >= LONG_S:
            self._set_apart()
        elif generation < _OLDEST:
            self._looks[generation] += 1
            self._spent_s[generation] += took_s

    def _collect(self, generation: int, what: str) -> float:
        """Seconds of CPU."""
        self.doing = what
        begun = thread_time()
        gc.collect(generation)
        return thread_time() - begun

    def _set_apart(self) -> None:
        gc.freeze()
        self._blocks = sys.getallocatedblocks()
        self._looks, self._spent_s = [0, 0], [0.0, 0.0]

    def _note_all(self) -> None:
        """Everything that lives was looked at, or shall count as if."""
        self._blocks = sys.getallocatedblocks()
        self._due_at = 2 * self._blocks + self._grown_min

    def _look_thoroughly(self) -> None:
        gc.unfreeze()
        took_s = self._collect(_OLDEST, "everything")
        self._set_apart()
        self._note_all()
        looks = self.looks
        longest_ms = max(looks.longest_thorough_ms, took_s * 1000)
        self.looks = looks._replace(thorough=looks.thorough + 1, longest_thorough_ms=longest_ms)

    def describe(self) -> dict[str, float]:
        """A summary for people and logs."""
        looks = self.looks
        return {
            "collections": looks.taken,
            "longest_collection_ms": round(looks.longest_ms, 3),
            "thorough_collections": looks.thorough,
            "longest_thorough_collection_ms": round(looks.longest_thorough_ms, 3),
        }

    def __repr__(self) -> str:
        return f"Collector({self.looks})"
