"""Offsets that members of groups asked to commit, and what a coordinator may say of them.

A commit is *open* from when it is sent until it is acknowledged; one that failed may still arrive, so it
stays open. A coordinator may hold the last acknowledged commit, or one that is open or was sent before
that one was acknowledged: never one that nobody asked for, and never one that was acknowledged before
the newest acknowledged one was even sent ("a committed offset never goes back unasked").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

Place = tuple[str, int]
"""Topic and partition."""
OPEN = 1 << 62


class Attempt:
    """One commit of one partition's offset."""

    __slots__ = ("acknowledged", "offset", "sent")

    def __init__(self, offset: int, sent: int) -> None:
        self.offset = offset
        self.sent = sent
        """Place in the order of everything that was sent or acknowledged."""
        self.acknowledged = OPEN

    def __repr__(self) -> str:
        state = "open" if self.acknowledged == OPEN else "acknowledged"
        return f"{self.offset} ({state})"


class Commits:
    """All groups' commits of one run."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, Place], list[Attempt]] = defaultdict(list)
        self._order = 0

    def _next(self) -> int:
        self._order += 1
        return self._order

    def begin(self, group: str, offsets: Mapping[Place, int]) -> list[Attempt]:
        """A member is about to commit `offsets`; give what is returned to `acknowledge`."""
        now = self._next()
        made = []
        for place, offset in offsets.items():
            attempt = Attempt(offset, now)
            self._attempts[group, tuple(place)].append(attempt)  # type: ignore[index]
            made.append(attempt)
        return made

    def acknowledge(self, attempts: list[Attempt]) -> None:
        """The coordinator said that they are committed."""
        now = self._next()
        for attempt in attempts:
            attempt.acknowledged = now

    def acknowledged(self, place: Place) -> list[tuple[str, int]]:
        """(group, the largest offset that was acknowledged) of every group that committed `place`."""
        found = []
        for (group, where), attempts in self._attempts.items():
            offsets = [a.offset for a in attempts if where == place and a.acknowledged != OPEN]
            if offsets:
                found.append((group, max(offsets)))
        return found

    def forget(self, group: str) -> None:
        """Somebody asked to delete the group, or its offsets."""
        for key in [key for key in self._attempts if key[0] == group]:
            del self._attempts[key]

    def check(self, group: str, found: Mapping[Place, int]) -> str:
        """What is wrong with a coordinator that holds `found` for `group`; empty where nothing is."""
        for (owner, place), attempts in self._attempts.items():
            if owner != group:
                continue
            newest = max((a.sent for a in attempts if a.acknowledged != OPEN), default=-1)
            offset = found.get(place)
            if offset is None:
                if newest >= 0:
                    return f"group {group} has no offset for {place}, though one was acknowledged"
                continue
            mine = [a for a in attempts if a.offset == offset]
            if not mine:
                return f"group {group} has offset {offset} for {place}, which nobody committed"
            if all(a.acknowledged < newest for a in mine):
                return (
                    f"group {group}: offset {offset} for {place} is older than what was acknowledged"
                    f" since: {attempts[-5:]}"
                )
        return ""
