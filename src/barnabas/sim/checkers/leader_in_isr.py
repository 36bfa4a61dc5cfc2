"""Invariant 8: the leader is none or in the ISR, the ISR is in the replicas, and a fenced broker is in an
ISR only as its last member, and only where ELR is off."""

from __future__ import annotations

from barnabas.metadata.features import ELR_VERSION
from barnabas.metadata.image import MetadataImage
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.metadata_records import RecordRule
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
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


class LeaderInIsr(Checker):
    def __init__(self, last: LastMembers) -> None:
        self._last = last
        self._seen: dict[int, tuple[object, int]] = {}
        self._isr: dict[tuple[bytes, int], tuple[int, tuple[int, ...], int]] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        assert node.node is not None
        image = node.node.metadata.image
        if self._seen.get(node.id) == (image, image.offset):
            return
        self._seen[node.id] = (image, image.offset)
        for topic in image.topics_by_id.values():
            for index in range(len(topic)):
                state = topic.partition(index)
                self._count(cluster, topic.id, index, state)
                where = f"{topic.name}-{index} at offset {image.offset}"
                isr = set(state.isr)
                if not isr <= set(state.replicas):
                    raise Violation(f"{where}: ISR {state.isr}, replicas {state.replicas}")
                if state.leader >= 0 and state.leader not in isr:
                    raise Violation(f"{where}: leader {state.leader}, ISR {state.isr}")
                fenced = [b for b in state.isr if b in image.brokers and image.brokers[b].fenced]
                kept = self._last.epochs.get((topic.id, index)) == state.partition_epoch
                if fenced and (len(state.isr) > 1 or (image.elr_enabled and not kept)):
                    raise Violation(f"{where}: fenced {fenced} in ISR {state.isr}")

    def _count(self, cluster: SimCluster, topic_id: bytes, index: int, state: object) -> None:
        """Totals of what the run went through, each change counted once."""
        epoch: int = state.partition_epoch  # type: ignore[attr-defined]
        isr: tuple[int, ...] = tuple(state.isr)  # type: ignore[attr-defined]
        leader: int = state.leader  # type: ignore[attr-defined]
        before = self._isr.get((topic_id, index))
        if before is not None and before[0] >= epoch:
            return
        self._isr[topic_id, index] = (epoch, isr, leader)
        if before is None:
            return
        totals = cluster.world.totals
        totals["ISR shrinks"] += len(isr) < len(before[1])
        totals["ISR expansions"] += len(isr) > len(before[1])
        totals["leader changes"] += leader != before[2] and leader >= 0
