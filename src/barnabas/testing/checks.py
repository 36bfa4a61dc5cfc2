"""Checks at the end of a test: nothing acknowledged is lost, every ISR is whole, a group is stable."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from barnabas.testing.connecting import ConnectableCluster, connected
from barnabas.types import TopicPartition

SHOWN_MAX = 5


class RecordLedger:
    """The records that a producer got acknowledged."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, dict[int, bytes | None]] = {}
        """The value of each by its partition and offset."""

    def __len__(self) -> int:
        return sum(map(len, self.records.values()))

    def __repr__(self) -> str:
        return f"RecordLedger({len(self)} records)"

    def add(self, topic: str, partition: int, offset: int | None, value: bytes | None) -> None:
        """A record was acknowledged. Raises `AssertionError` for two records at one offset, and `ValueError`
        for one without: a producer with acks=0 gets nothing acknowledged."""
        if offset is None or offset < 0:
            raise ValueError(f"{topic}-{partition}: acks=0 acknowledges no record, use 1 or all")
        of_partition = self.records.setdefault(TopicPartition(topic, partition), {})
        known = of_partition.setdefault(offset, value)
        assert known == value, f"{topic}-{partition} acknowledged two records at offset {offset}"

    def on_delivery(self, error: Any, message: Any) -> None:
        """The callback of a producer of confluent-kafka; a failed record is not acknowledged."""
        if error is None:
            self.add(message.topic(), message.partition(), message.offset(), message.value())


class Checks:
    """Use it through `Cluster.checks`."""

    def __init__(self, cluster: ConnectableCluster) -> None:
        self._cluster = cluster

    def nothing_lost(self, ledger: RecordLedger) -> None:
        """Every record of the ledger is where it was acknowledged. Raises `AssertionError`, which names some
        that are not."""
        topics = sorted({tp.topic for tp in ledger.records})
        found: dict[TopicPartition, dict[int, bytes | None]] = {}
        if topics:
            with connected(self._cluster) as client:
                for record in client.read(topics):
                    at = TopicPartition(record.topic, record.partition)
                    found.setdefault(at, {})[record.offset] = record.value
        lost = [
            f"{tp} {offset}: {value!r} was acknowledged, {found.get(tp, {}).get(offset)!r} is there"
            for tp, records in sorted(ledger.records.items())
            for offset, value in sorted(records.items())
            if offset not in found.get(tp, {}) or found[tp][offset] != value
        ]
        shown = "\n".join(lost[:SHOWN_MAX])
        assert not lost, f"{len(lost)} of {len(ledger)} acknowledged records are lost:\n{shown}"

    def isrs_whole(self, topics: Collection[str] = (), timeout_s: float = 30.0) -> None:
        """Wait until every replica of these topics, or of all, is in its ISR. Raises `ClusterError`."""
        with connected(self._cluster) as client:

            def are_whole() -> bool:
                return all(
                    sorted(view.isr) == sorted(view.replicas) and view.leader in view.isr
                    for topic in client.topics()
                    if not topics or topic.name in topics
                    for view in topic.partitions.values()
                )

            self._cluster.wait_for(are_whole, "every ISR to be whole", timeout_s)

    def group_stable(self, group_id: str, members: int = 1, timeout_s: float = 30.0) -> None:
        """Wait until a group is stable with at least this many members. Raises `ClusterError`."""
        from barnabas.wire.errors import ErrorCode, KafkaError

        with connected(self._cluster) as client:

            def is_stable() -> bool:
                try:
                    group = client.call(client.admin.describe_group(group_id))
                except KafkaError as error:
                    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                        return False
                    raise
                return group.state == "Stable" and len(group.members) >= members

            self._cluster.wait_for(is_stable, f"group {group_id} to be stable", timeout_s)
