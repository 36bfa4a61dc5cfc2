"""The finalized levels of features: those that are committed.

The active controller's image also has records that it has appended and that may be undone;
ApiVersions must not name their levels. A change is noticed with the next commit. It takes effect
when all records that had been appended by then are committed.
"""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage


class FinalizedFeatures:
    """The feature levels by name, as of `offset`."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self.offset = -1
        self._coming: tuple[dict[str, int], int] | None = None
        """The next levels, and the offset up to which the log must be committed before they take
        effect."""

    def on_commit(self, image: MetadataImage, committed_offset: int) -> bool:
        """Compare with the levels of `image`, which may be ahead of `committed_offset`. Returns whether
        `levels` changed."""
        self.offset, before = committed_offset, self.levels
        while self._coming is not None or image.features != self.levels:
            if self._coming is None:
                self._coming = dict(image.features), image.offset
            levels, needed = self._coming
            if needed > committed_offset:
                break
            self.levels, self._coming = levels, None
        return self.levels is not before

    def on_snapshot(self, image: MetadataImage) -> None:
        """Take the levels of `image`, which holds committed records only."""
        self._coming = None
        self.on_commit(image, image.offset)

    def on_resignation(self) -> None:
        """Forget the next levels: their records were undone."""
        self._coming = None
