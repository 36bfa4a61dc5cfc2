"""``barnabas topics``: what it says of partitions that cannot answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from barnabas.cli.commands.topics import partitions_of
from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata
from barnabas.client.offsets import EARLIEST, OffsetAndTimestamp
from barnabas.types import TopicPartition, Uuid


class LedOnly:
    """Answers for partitions with a leader; the client waits for its time-out about any other."""

    def offsets(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int = -1
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        assert [tp.partition for tp in partitions] == [0]
        offset = 3 if timestamp_ms == EARLIEST else 9
        return {tp: OffsetAndTimestamp(offset, -1, 0) for tp in partitions}


def test_offsets_are_not_asked_of_a_partition_without_a_leader() -> None:
    """The command waited for its time-out and failed: when an operator needs it most."""
    partitions = {
        0: PartitionMetadata(leader=1, leader_epoch=0, replicas=[1], isr=[1]),
        1: PartitionMetadata(leader=-1, leader_epoch=4, replicas=[2], isr=[2]),
    }
    view = TopicMetadata(name="t", topic_id=Uuid(bytes(16)), internal=False, partitions=partitions)
    rows: list[dict[str, Any]] = partitions_of(cast(Any, LedOnly()), view, offsets=True)
    assert [(row["start"], row["end"]) for row in rows] == [(3, 9), (None, None)]
