"""The only way to a broker's share groups.

It opens with the first request of a share group, or when this broker coordinates share partitions.
A broker without share groups loads none of their modules. An open door passes on what the broker
reports; a closed one ignores it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.types import SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from barnabas.broker.partitions.partition import Partition
    from barnabas.broker.share.share_groups import ShareGroups, ShareHost
    from barnabas.metadata.image.image_changes import ImageChanges


class ShareDoor:
    """The door of one broker; it opens once."""

    __slots__ = ("_broker", "_groups")

    def __init__(self, broker: ShareHost) -> None:
        self._broker = broker
        self._groups: ShareGroups | None = None

    def __repr__(self) -> str:
        return f"ShareDoor({self._groups!r})"

    @property
    def opened(self) -> ShareGroups | None:
        """The broker's share groups; None while the door is closed."""
        return self._groups

    def open(self) -> ShareGroups:
        """The broker's share groups. The first call loads them."""
        if self._groups is None:
            from barnabas.broker.share.share_groups import ShareGroups

            self._groups = ShareGroups(self._broker)
        return self._groups

    def start(self) -> None:
        """The logs are open: from now on, leading a partition of the internal topic opens the
        door."""
        self._broker.replicas.on_leadership(SHARE_STATE_TOPIC, self._on_leadership)

    def _on_leadership(self, partition: Partition, epoch: int | None) -> None:
        if epoch is not None or self._groups is not None:
            self.open().on_leadership(partition, epoch)

    def on_metadata(self, changes: ImageChanges) -> None:
        """Pass on changes that the image's committed records made."""
        if self._groups is not None:
            self._groups.on_metadata(changes)

    def on_connection_closed(self, connection_id: int) -> None:
        """Pass on that a client's connection ended."""
        if self._groups is not None:
            self._groups.fetches.on_connection_closed(connection_id)

    def close(self) -> None:
        """The broker ends: close its share groups."""
        if self._groups is not None:
            self._groups.close()

    def describe(self) -> dict[str, object]:
        """The state of the share groups; empty while the door is closed."""
        return {} if self._groups is None else self._groups.describe()
