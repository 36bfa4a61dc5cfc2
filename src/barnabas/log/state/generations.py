"""Counts how often the files of a log became others, so that a job which read the former ones is void."""

from __future__ import annotations

from barnabas.log.config import FOREVER_MS


class Generations:
    """Truncations, replaced segments and rolls of one log since it was opened."""

    __slots__ = ("lowest_cut", "replacement_count", "roll_count", "truncation_count")

    def __init__(self) -> None:
        self.truncation_count = 0
        """How often the log was cut: a sync that began before says nothing of what came after."""
        self.replacement_count = 0
        """How often a segment came in the place of others: a job that reads files may have read of both."""
        self.roll_count = 0
        self.lowest_cut = FOREVER_MS
        """The lowest offset at which the log was cut since its last compaction."""

    def on_truncated(self, offset: int) -> None:
        self.truncation_count += 1
        self.note_cut(offset)

    def on_moved(self) -> None:
        """The files are in another directory. A sync under way says nothing of them there."""
        self.truncation_count += 1

    def on_replaced(self) -> None:
        self.replacement_count += 1

    def on_rolled(self) -> None:
        self.roll_count += 1

    def note_cut(self, offset: int) -> None:
        """The log, or the one that it replaces, was cut at `offset`."""
        self.lowest_cut = min(self.lowest_cut, offset)

    def forget_cuts(self) -> None:
        """The whole log was compacted: the next compaction need not go back to earlier truncations."""
        self.lowest_cut = FOREVER_MS
