"""The changes in memory or in the page cache, and how much of them is on the device."""

from __future__ import annotations


class DirtyCounter:
    """Counts them, so that a sync answers for those before it began: of two under way at once, the first
    to end says nothing of what the other one took on."""

    __slots__ = ("count", "durable")

    def __init__(self) -> None:
        self.count = 0
        self.durable = 0

    @property
    def are_pending(self) -> bool:
        """Whether the device may lack some."""
        return self.durable < self.count

    def happened(self) -> None:
        self.count += 1

    def made_durable(self, count: int) -> None:
        """The first `count` are on the device."""
        self.durable = max(self.durable, count)

    def reset(self, *, pending: bool) -> None:
        """All changes so far are on the device, or (`pending`) may not be."""
        self.durable = self.count
        self.count += pending
