"""The way to a broker's share groups, which opens with the first request of one.

It also opens where this broker has share partitions to coordinate. A broker without share groups loads
none of their modules. The door passes on what the broker reports once it is open; before, no module
listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.types import SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from barnabas.broker.partitions.partition import Partition
    from barnabas.broker.share.share_groups import ShareGroups, ShareHost
    from barnabas.metadata.image.image_changes import ImageChanges


class ShareDoor:
    """Opens once."""

    __slots__ = ("_broker", "_groups")

    def __init__(self, broker: ShareHost) -> None:
        self._broker = broker
        self._groups: ShareGroups | None = None

    def __repr__(self) -> str:
        return f"ShareDoor({self._groups!r})"

    @property
    def opened(self) -> ShareGroups | None:
        """The broker's share groups, where the door is open."""
        return self._groups

    def open(self) -> ShareGroups:
        """The broker's share groups."""
        if self._groups is None:
            from barnabas.broker.share.share_groups import ShareGroups

            self._groups = ShareGroups(self._broker)
        return self._groups

    def start(self) -> None:
        """The logs are open: coordinate what this broker leads."""
        self._broker.replicas.on_leadership(SHARE_STATE_TOPIC, self._on_leadership)

    def _on_leadership(self, partition: Partition, epoch: int | None) -> None:
        if epoch is not None or self._groups is not None:
            self.open().on_leadership(partition, epoch)

    def on_metadata(self, changes: ImageChanges) -> None:
        """The image moved by committed records."""
        if self._groups is not None:
            self._groups.on_metadata(changes)

    def on_connection_closed(self, connection_id: int) -> None:
        """A client is gone."""
        if self._groups is not None:
            self._groups.fetches.on_connection_closed(connection_id)

    def close(self) -> None:
        """The broker hands over."""
        if self._groups is not None:
            self._groups.close()

    def describe(self) -> dict[str, object]:
        """The state of the parts; empty where there are none."""
        return {} if self._groups is None else self._groups.describe()
