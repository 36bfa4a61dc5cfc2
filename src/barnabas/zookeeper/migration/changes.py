"""The changes of an image, gathered until they are written."""

from __future__ import annotations

from barnabas.metadata.image.image_changes import ImageChanges


def merge(into: ImageChanges, later: ImageChanges) -> None:
    """Add `later` to `into`."""
    into.everything |= later.everything
    into.topics_created.update(later.topics_created)
    into.topics_deleted.update(later.topics_deleted)
    into.partitions.update(later.partitions)
    into.brokers.update(later.brokers)
    into.controllers.update(later.controllers)
    into.configs.update(later.configs)
    into.features |= later.features
    into.producer_ids |= later.producer_ids
    into.access |= later.access
