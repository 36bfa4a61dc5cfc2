"""Maps with two states, the newest and the committed one, whose uncommitted changes can be undone.

All maps of one machine share a :class:`Journal`, which keeps the previous value of every uncommitted
change. `commit_to` drops entries of the journal, `revert_to` undoes their changes. Memory beyond that of a
plain dict, and the cost of both calls, grow only with the number of uncommitted changes.

Invariant: for a map `m`, `m.committed(k)` is the value of `k` after the replay of all records
before the committed offset. None is not a value: it means that the key is absent.

Source: Kafka's ``TimelineHashMap``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Change(NamedTuple):
    offset: int
    """The offset of the record that made the change."""
    table: TimelineMap[Any, Any]
    key: Any
    before: Any


class Journal:
    """Uncommitted changes of all maps of a machine, oldest first."""

    __slots__ = ("_changes", "committed", "offset")

    def __init__(self) -> None:
        self.offset = 0
        """The offset of the next change: that of the record being replayed, or of the next record to be
        written."""
        self.committed = 0
        """Changes of records before this offset are committed."""
        self._changes: deque[_Change] = deque()

    def __len__(self) -> int:
        return len(self._changes)

    def record_change(self, table: TimelineMap[Any, Any], key: Any, before: Any) -> bool:
        """Remember the value of `key` before a change. False where its record is committed already, so that
        there is nothing to undo."""
        if self.offset < self.committed:
            return False
        self._changes.append(_Change(self.offset, table, key, before))
        return True

    def commit_to(self, offset: int) -> None:
        """Changes of records before `offset` can no longer be undone."""
        self.committed = max(self.committed, offset)
        changes = self._changes
        while changes and changes[0].offset < offset:
            change = changes.popleft()
            change.table.on_committed(change.key)

    def revert_to(self, offset: int) -> None:
        """Undo the changes of records from `offset` on; the next record gets `offset`."""
        changes = self._changes
        while changes and changes[-1].offset >= offset:
            change = changes.pop()
            change.table.on_reverted(change.key, change.before)
        self.offset = offset


class TimelineMap(Generic[K, V]):
    """A mapping. Methods read the newest state, unless their name says `committed`."""

    __slots__ = ("_dirty", "_journal", "_newest")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._newest: dict[K, V] = {}
        self._dirty: dict[K, deque[V | None]] = {}
        """Per key with uncommitted changes: its values before each of them, the committed one first."""

    def __len__(self) -> int:
        return len(self._newest)

    def __contains__(self, key: K) -> bool:
        return key in self._newest

    def get(self, key: K) -> V | None:
        return self._newest.get(key)

    def items(self) -> list[tuple[K, V]]:
        """Items of the newest state, in the order of their insertion."""
        return list(self._newest.items())

    def put(self, key: K, value: V) -> V | None:
        """Set `key`. Returns its value before."""
        before = self._newest.get(key)
        self._note(key, before)
        self._newest[key] = value
        return before

    def remove(self, key: K) -> V | None:
        """Remove `key`. Returns its value before; where it had none, nothing changes."""
        before = self._newest.get(key)
        if before is not None:
            self._note(key, before)
            del self._newest[key]
        return before

    def committed(self, key: K) -> V | None:
        """The committed value of `key`."""
        values = self._dirty.get(key)
        return values[0] if values else self._newest.get(key)

    def committed_items(self) -> Iterator[tuple[K, V]]:
        """Items of the committed state; first the keys without uncommitted changes."""
        dirty = self._dirty
        for key, value in self._newest.items():
            if key not in dirty:
                yield key, value
        for key, values in dirty.items():
            if values[0] is not None:
                yield key, values[0]

    @property
    def is_blank(self) -> bool:
        """Whether the map is empty in both states."""
        return not self._newest and not self._dirty

    def _note(self, key: K, before: V | None) -> None:
        if self._journal.record_change(self, key, before):
            self._dirty.setdefault(key, deque()).append(before)

    def on_committed(self, key: K) -> None:
        """Called by the journal when the oldest uncommitted change of `key` is committed."""
        values = self._dirty[key]
        values.popleft()
        if not values:
            del self._dirty[key]

    def on_reverted(self, key: K, before: V | None) -> None:
        """Called by the journal to undo the newest change of `key`, which was `before` until then."""
        values = self._dirty[key]
        values.pop()
        if not values:
            del self._dirty[key]
        if before is None:
            self._newest.pop(key, None)
        else:
            self._newest[key] = before
