"""Invariant 12: a reassignment never drops below min ISR, and can always be cancelled or completed.

The checker replays the committed metadata log record by record into an image of its own, so it sees every
step. A step after which a partition is not being reassigned is one of these:

- It completes a reassignment. Every added replica is in the ISR, and the ISR is not below min ISR.
- It cancels a reassignment. The replicas are those that the partition had before.
- It replaces a reassignment by another one that is complete at once. The first condition holds for the other.
- It is a reassignment that is complete at once. The first condition holds.

At the end of a run all faults are healed. Then no reassignment may be left whose replicas are all in the ISR:
this is the last half of "can always be completed".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.metadata.image.codec import decode_record
from barnabas.metadata.image.image import BROKER, TOPIC, MetadataImage
from barnabas.metadata.image.topic import PartitionState
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.raft.core.batches import batch_values
from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.metadata_records import RecordRule, RecordRules
from barnabas.sim.checkers.quorum_logs import QuorumLogs, QuorumRule
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import Violation
from barnabas.types import Uuid

MIN_ISR = "min.insync.replicas"
OnChange = Callable[[int, PartitionState, PartitionState, PartitionChangeRecord], None]
"""(metadata offset, before, after, the record)."""


class ReassignmentsKeepMinIsr(QuorumRule):
    def __init__(
        self,
        on_change: OnChange = lambda offset, before, after, record: None,
        rules: Iterable[RecordRule] = (),
    ) -> None:
        """`on_change` receives every change of a partition, `rules` every record."""
        self._on_change = on_change
        self._rules = RecordRules(rules)
        self.image = MetadataImage(track_changes=False)
        self._origin: dict[tuple[Uuid, int], tuple[int, ...]] = {}
        """(topic id, partition) → its replicas before the reassignment that is under way."""

    def on_committed(self, logs: QuorumLogs, cluster: SimCluster, link: Link) -> None:
        header = link.header
        if header is None or header.is_control:
            return
        values = batch_values(memoryview(link.data))
        for offset, value in enumerate(values, link.start):
            record = decode_record(value)
            self._rules.on_record(self.image, offset, record)
            if isinstance(record, PartitionChangeRecord):
                self._replay_change(cluster, offset, value, record)
            else:
                if isinstance(record, PartitionRecord) and record.adding_replicas:
                    # Copied from ZooKeeper while it is under way.
                    present = (r for r in record.replicas if r not in record.adding_replicas)
                    key = Uuid(record.topic_id), record.partition_id
                    self._origin[key] = tuple(present)
                self._replay(value, offset)

    def _replay(self, value: memoryview, offset: int) -> None:
        self.image.replay_values([value], offset, 0, 0)

    def _replay_change(
        self, cluster: SimCluster, offset: int, value: memoryview, record: PartitionChangeRecord
    ) -> None:
        topic_id, index = Uuid(record.topic_id), record.partition_id
        before = self.image.partition(topic_id, index)
        self._replay(value, offset)
        after = self.image.partition(topic_id, index)
        if before is None or after is None:
            return
        self._on_change(offset, before, after, record)
        key = (topic_id, index)
        if before.replicas != after.replicas or before.adding != after.adding:
            self._check_step(cluster, offset, before, after, self._origin.get(key))
        if not after.reassigning:
            self._origin.pop(key, None)
        elif not before.reassigning:
            self._origin[key] = before.replicas

    def _check_step(
        self,
        cluster: SimCluster,
        offset: int,
        before: PartitionState,
        after: PartitionState,
        origin: tuple[int, ...] | None,
    ) -> None:
        where = f"{after} at metadata offset {offset}"
        if after.leader >= 0 and after.leader not in after.replicas:
            raise Violation(f"{where}: leader {after.leader} is none of {after.replicas}")
        if after.reassigning:
            return
        if not before.reassigning:
            if set(after.replicas) == set(before.replicas):
                return  # in another order
            coming = tuple(broker for broker in after.replicas if broker not in before.replicas)
            self._check_completion(cluster, where, coming, after)
            return
        target = tuple(r for r in before.replicas if r not in before.removing)
        if origin is None or set(after.replicas) == set(target):
            self._check_completion(cluster, where, before.adding, after)
            return
        # A reassignment may have replaced an earlier one. Replicas that the earlier one had added to the ISR
        # stay when the later one is cancelled.
        reverted = {r for r in before.replicas if r not in before.adding}
        if set(after.replicas) not in (set(origin), reverted):
            # Neither completed nor cancelled: another reassignment replaced it and was complete at once.
            coming = tuple(broker for broker in after.replicas if broker not in reverted)
            self._check_completion(cluster, where, coming, after)

    def _check_completion(
        self, cluster: SimCluster, where: str, coming: tuple[int, ...], after: PartitionState
    ) -> None:
        late = [broker for broker in coming if broker not in after.isr]
        if late:
            raise Violation(f"{where}: completed while {late} are not in the ISR {after.isr}")
        least = min(self._min_isr(cluster, after.topic), len(after.replicas))
        if len(after.isr) < least:
            raise Violation(f"{where}: completed with ISR {after.isr}, below min ISR {least}")

    def _min_isr(self, cluster: SimCluster, topic: str) -> int:
        for found in (
            self.image.config(TOPIC, topic).get(MIN_ISR),
            self.image.config(BROKER, "").get(MIN_ISR),
        ):
            if found is not None:
                return int(found)
        return int(cluster.properties(min(cluster.nodes))[MIN_ISR])

    def at_end(self, cluster: SimCluster) -> None:
        for topic in self.image.topics_by_id.values():
            for state in topic.partitions():
                if state.reassigning and set(state.replicas) <= set(state.isr):
                    raise Violation(
                        f"{state}: a reassignment that nothing holds up is left over (adding"
                        f" {state.adding}, removing {state.removing}, ISR {state.isr})"
                    )
