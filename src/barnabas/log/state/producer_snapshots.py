"""Keeps which files of producer state a log has, which the device may lack, and what they cannot know."""

from __future__ import annotations

from collections.abc import Collection


class ProducerSnapshots:
    """The producer snapshots of one log. Offsets are those in the files' names."""

    __slots__ = ("newest", "suspect_segments", "unsynced")

    def __init__(self) -> None:
        self.newest = -1
        """The offset of the newest one that was written or read; -1 where there is none."""
        self.unsynced: list[int] = []
        """Offsets of those that the device may not have."""
        self.suspect_segments: set[int] = set()
        """Bases of segments of which the producer state says less than they held: a batch had rotted."""

    def on_written(self, offset: int) -> None:
        self.newest = offset
        self.unsynced.append(offset)

    def on_found(self, offset: int) -> None:
        """The one at `offset` is the newest that is left."""
        self.newest = offset

    def on_none_left(self) -> None:
        self.newest = -1

    def on_synced(self, offsets: Collection[int]) -> None:
        self.unsynced = [at for at in self.unsynced if at not in offsets]

    def suspect(self, base: int) -> None:
        """The segment at `base` has a corrupt batch, which the producer state does not cover."""
        self.suspect_segments.add(base)

    def trust(self, base: int) -> None:
        """The segment at `base` is read again from here."""
        self.suspect_segments.discard(base)
