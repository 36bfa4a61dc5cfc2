"""The changes of an image since its reader last asked.

A reader (the broker's replica table, a metadata cache, metrics) takes the changes after a
committed batch and touches only what they name. All changes are in log order.

Source: Kafka's ``MetadataDelta``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.types import Uuid


@dataclass(slots=True)
class ImageChanges:
    """Dictionaries serve as ordered sets."""

    everything: bool = False
    """A snapshot has replaced the image: its reader compares all of it. The other fields are empty."""
    topics_created: dict[Uuid, None] = field(default_factory=dict)
    """With all their partitions that the image has now; those are not in `partitions`."""
    topics_deleted: dict[Uuid, str] = field(default_factory=dict)
    """The ids of deleted topics, with their names."""
    partitions: dict[tuple[Uuid, int], None] = field(default_factory=dict)
    """(topic id, index): created in an existing topic, or changed."""
    brokers: dict[int, None] = field(default_factory=dict)
    """Registered, changed, fenced, unfenced or unregistered."""
    controllers: dict[int, None] = field(default_factory=dict)
    configs: dict[tuple[int, str], None] = field(default_factory=dict)
    """(resource type, name)."""
    features: bool = False
    producer_ids: bool = False
    access: bool = False
    """ACLs, SCRAM credentials, delegation tokens or quotas."""

    def __bool__(self) -> bool:
        return bool(
            self.everything
            or self.topics_created
            or self.topics_deleted
            or self.partitions
            or self.brokers
            or self.controllers
            or self.configs
            or self.features
            or self.producer_ids
            or self.access
        )
