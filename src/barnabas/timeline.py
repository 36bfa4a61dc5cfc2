"""Maps that know two states: the newest, and what is committed; and how to undo the difference.

Every change made while an offset is open is noted in a :class:`Journal` shared by all maps of one
machine. `commit_to` forgets notes, `revert_to` plays them back. Cost and memory go with what is
uncommitted only.

Invariant: for a map `m`, `m.committed(k)` is what `m[k]` was when the log ended at the committed
offset.

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
    """Of the record that made the change."""
    table: TimelineMap[Any, Any]
    key: Any
    before: Any


class Journal:
    """Changes that are not committed, in their order."""

    __slots__ = ("_changes", "committed", "offset")

    def __init__(self) -> None:
        self.offset = 0
        """Where the next change belongs: the offset of the record being replayed, or of the next one
        to be decided."""
        self.committed = 0
        self._changes: deque[_Change] = deque()

    def __len__(self) -> int:
        return len(self._changes)

    def record_change(self, table: TimelineMap[Any, Any], key: Any, before: Any) -> bool:
        """Remember what `key` was. False where the change is committed at once."""
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
    """A mapping whose reads are of the newest state, unless they say `committed`."""

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
        """Newest state, in the order in which keys came."""
        return list(self._newest.items())

    def put(self, key: K, value: V) -> V | None:
        """The value before."""
        before = self._newest.get(key)
        self._note(key, before)
        self._newest[key] = value
        return before

    def remove(self, key: K) -> V | None:
        """The value before; nothing is noted where there was none."""
        before = self._newest.get(key)
        if before is not None:
            self._note(key, before)
            del self._newest[key]
        return before

    def committed(self, key: K) -> V | None:
        """What is committed under `key`."""
        values = self._dirty.get(key)
        return values[0] if values else self._newest.get(key)

    def committed_items(self) -> Iterator[tuple[K, V]]:
        """What is committed."""
        dirty = self._dirty
        for key, value in self._newest.items():
            if key not in dirty:
                yield key, value
        for key, values in dirty.items():
            if values[0] is not None:
                yield key, values[0]

    @property
    def is_blank(self) -> bool:
        """Nothing here, committed or not."""
        return not self._newest and not self._dirty

    def _note(self, key: K, before: V | None) -> None:
        if self._journal.record_change(self, key, before):
            self._dirty.setdefault(key, deque()).append(before)

    def on_committed(self, key: K) -> None:
        """By the journal: the oldest change of `key` is committed."""
        values = self._dirty[key]
        values.popleft()
        if not values:
            del self._dirty[key]

    def on_reverted(self, key: K, before: V | None) -> None:
        """By the journal: the newest change of `key` is undone."""
        values = self._dirty[key]
        values.pop()
        if not values:
            del self._dirty[key]
        if before is None:
            self._newest.pop(key, None)
        else:
            self._newest[key] = before
