"""Invariant 8: the leader is none or in the ISR, the ISR is in the replicas, and a fenced broker is in an
ISR only as its last member, and only where ELR is off."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TypeAlias

from barnabas.metadata.features import ELR_VERSION
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import PartitionState, Replicas
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.metadata_records import RecordRule
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import Uuid
from barnabas.wire.schema import Message


class LastMembers(RecordRule):
    """Partitions whose ISR had a fenced last member when ELR was switched on: they have it until the
    controller, which looks through all of them then, comes to them."""

    KINDS = (FeatureLevelRecord,)

    def __init__(self) -> None:
        self.epochs: dict[tuple[bytes, int], int] = {}
        """The partition epoch in which it was so."""

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        assert isinstance(record, FeatureLevelRecord)
        if record.name != ELR_VERSION or not record.feature_level:
            return
        for topic in image.topics_by_id.values():
            for state in topic.partitions():
                if len(state.isr) == 1:
                    self.epochs[topic.id, state.partition] = state.partition_epoch


Columns: TypeAlias = tuple[set[int], "array[int]", "array[int]", list[Replicas], list[Replicas]]
"""Fenced brokers; of the partitions of one topic: leaders, partition epochs, replicas, ISRs."""


class LeaderInIsr(Checker):
    LOOKS_AT_IMAGE = True

    def __init__(self, last: LastMembers) -> None:
        self._last = last
        self._isr: dict[tuple[bytes, int], tuple[int, Replicas, int]] = {}
        """Partition → its newest partition epoch that any node showed, the ISR and the leader in it."""
        self._ordinary: dict[Uuid, Columns] = {}
        """Topic → what it had when it was looked at last, where nothing was out of the ordinary."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        image = node.image
        fenced = {id for id, broker in image.brokers.items() if broker.fenced}
        for topic_id, topic in image.topics_by_id.items():
            leaders, epochs = topic.leader, topic.partition_epoch
            columns: Columns = (fenced, leaders, epochs, topic.replicas, topic.isr)
            if columns == self._ordinary.get(topic_id):
                continue  # nothing of it has changed, or another node has shown it before
            is_ordinary = True
            for index, (replicas, isr) in enumerate(zip(topic.replicas, topic.isr, strict=True)):
                leader, epoch = leaders[index], epochs[index]
                known = self._isr.get((topic_id, index))
                if known is None or known[0] < epoch:
                    self._isr[topic_id, index] = (epoch, isr, leader)
                    if known is not None:
                        _count(cluster.world.totals, known[1], isr, leader, known[2])
                if (
                    not replicas
                    or not fenced.isdisjoint(isr)
                    or not set(isr).issubset(replicas)
                    or (leader >= 0 and leader not in isr)
                ):
                    is_ordinary = False
                    self._judge(image, topic.partition(index), fenced)
            if is_ordinary:
                kept = (fenced, leaders[:], epochs[:], topic.replicas[:], topic.isr[:])
                self._ordinary[topic_id] = kept

    def _judge(self, image: MetadataImage, state: PartitionState, fenced: set[int]) -> None:
        """Something is out of the ordinary: is it allowed?"""
        where = f"{state} at offset {image.offset}"
        if not set(state.isr).issubset(state.replicas):
            raise Violation(f"{where}: ISR {state.isr}, replicas {state.replicas}")
        if state.leader >= 0 and state.leader not in state.isr:
            raise Violation(f"{where}: leader {state.leader}, ISR {state.isr}")
        members = [broker for broker in state.isr if broker in fenced]
        kept = self._last.epochs.get((state.topic_id, state.partition)) == state.partition_epoch
        if members and (len(state.isr) > 1 or (image.elr_enabled and not kept)):
            raise Violation(f"{where}: fenced {members} in ISR {state.isr}")


def _count(
    totals: Counter[str], former: Replicas, isr: Replicas, leader: int, former_leader: int
) -> None:
    """Totals of what the run went through, each change counted once."""
    totals["ISR shrinks"] += len(isr) < len(former)
    totals["ISR expansions"] += len(isr) > len(former)
    totals["leader changes"] += leader != former_leader and leader >= 0
