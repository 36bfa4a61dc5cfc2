"""The offsets that members of groups asked to commit, and which of them a coordinator may hold.

A commit is *open* from the time it is sent until it is acknowledged. A commit that failed may still arrive,
so it stays open. Of each partition a coordinator may hold the newest acknowledged commit, an open one, or one
that was acknowledged after the newest one was sent. Two cases are violations: an offset that no client asked
to commit, and a commit that was acknowledged before the newest acknowledged one was sent ("a committed offset
never goes back unasked"). A deletion of a committed offset counts as a commit with the offset `GONE`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

Place = tuple[str, int]
"""Topic and partition."""
OPEN = 1 << 62
GONE = -1
"""The offset in a request to delete what is committed."""


class CommitAttempt:
    """One commit of one partition's offset."""

    __slots__ = ("acknowledged", "committed", "offset", "sent")

    def __init__(self, committed: Committed, offset: int, sent: int) -> None:
        self.committed = committed
        self.offset = offset
        self.sent = sent
        """Place in the order of everything that was sent or acknowledged."""
        self.acknowledged = OPEN

    def __repr__(self) -> str:
        state = "open" if self.acknowledged == OPEN else "acknowledged"
        return f"{self.offset} ({state})"


class Committed:
    """The offsets of one partition that one group asked to commit."""

    __slots__ = ("attempts", "by_offset", "newest")

    def __init__(self) -> None:
        self.attempts: list[CommitAttempt] = []
        self.by_offset: dict[int, list[CommitAttempt]] = {}
        self.newest = -1
        """When the newest acknowledged commit was sent; -1 where no commit was acknowledged."""


class Commits:
    """All groups' commits of one run."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Place, Committed]] = defaultdict(dict)
        self.by_hand: set[str] = set()
        """Groups whose offsets clients commit without reading."""
        self.may_go = 0
        """Number of clients that delete, or may yet delete, the offsets topic."""
        self.forgets_deletions = False
        """Whether tombstones are removed so soon (``log.cleaner.delete.retention.ms``) that a replica which
        was away may miss one and keep the deleted offset (seed 3001113)."""
        self._order = 0

    def _next(self) -> int:
        self._order += 1
        return self._order

    def begin(self, group: str, offsets: Mapping[Place, int]) -> list[CommitAttempt]:
        """A member is about to commit `offsets`. The caller gives the result to `acknowledge`."""
        now, places = self._next(), self._groups[group]
        made = []
        for place, offset in offsets.items():
            committed = places.get(place)
            if committed is None:
                committed = places[place] = Committed()
            attempt = CommitAttempt(committed, offset, now)
            committed.attempts.append(attempt)
            committed.by_offset.setdefault(offset, []).append(attempt)
            made.append(attempt)
        return made

    def acknowledge(self, attempts: list[CommitAttempt]) -> None:
        """The coordinator acknowledged these commits."""
        now = self._next()
        for attempt in attempts:
            attempt.acknowledged = now
            if attempt.sent < attempt.committed.newest:
                continue
            forgotten = attempt.offset == GONE and self.forgets_deletions
            attempt.committed.newest = -1 if forgotten else attempt.sent

    def may_be_gone(self) -> None:
        """The offsets topic was deleted, and may have been recreated: every offset that was committed before
        may exist or not."""
        now = self._next()
        for places in self._groups.values():
            for committed in places.values():
                attempt = CommitAttempt(committed, GONE, now)
                attempt.acknowledged = now
                committed.by_offset.setdefault(GONE, []).append(attempt)

    def acknowledged(self, place: Place) -> list[tuple[str, int]]:
        """(group, the largest offset that was acknowledged) of every group whose readers committed
        `place`."""
        found = []
        for group, places in self._groups.items():
            if group in self.by_hand:
                continue
            attempts = places[place].attempts if place in places else ()
            offsets = [a.offset for a in attempts if a.acknowledged != OPEN]
            if offsets:
                found.append((group, max(offsets)))
        return found

    def groups(self) -> list[str]:
        """All groups of which a client asked to commit or delete an offset."""
        return list(self._groups)

    def places(self, group: str) -> list[Place]:
        """The partitions for which a client asked to commit an offset of `group`."""
        return sorted(self._groups[group])

    def check(self, group: str, found: Mapping[Place, int]) -> str:
        """The fault of a coordinator that holds `found` for `group`; empty where there is none."""
        for place, committed in self._groups[group].items():
            newest, offset = committed.newest, found.get(place, GONE)
            if offset == GONE and (newest < 0 or self.may_go):
                continue
            mine = committed.by_offset.get(offset)
            if offset == GONE and (mine is None or all(a.acknowledged < newest for a in mine)):
                return f"group {group} has no offset for {place}, though one was acknowledged"
            if mine is None:
                return f"group {group} has offset {offset} for {place}, which no member committed"
            if all(a.acknowledged < newest for a in mine):
                return (
                    f"group {group}: offset {offset} for {place} is older than what was acknowledged"
                    f" since: {committed.attempts[-5:]}"
                )
        return ""
