"""The ordinary end of a broker, quickly: it leaves an ISR in which somebody remains.

A broker with thirty thousand partitions makes as many decisions at once, nearly all of the same
plain kind: nothing else is going on with the partition, and if the leader is gone the first live
ISR member in order of assignment follows; where fewer than min ISR remain, those that leave are the
first of the ELR. These need no
:class:`~barnabas.controller.partitions.PartitionChange`; a property test holds the result equal to
what that would give. Everything else is answered with None.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.controller.cluster import Cluster
from barnabas.controller.elections import first_live
from barnabas.controller.partitions import joined
from barnabas.metadata.features import NO_EPOCH_BUMP_ON_SHRINK_SINCE
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.topic import LEADER_UNCHANGED, Replicas, Topic
from barnabas.types import Uuid


class PlainShrink:
    """Decides for one pass, during which the cluster does not change."""

    __slots__ = ("_cluster", "_departing", "_elr", "_homes", "_min_isr", "_possible", "_topic")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._departing = cluster.departing
        self._homes = cluster.live_homes()
        """Brokers that named no directories are left to the general way."""
        self._possible = cluster.image.metadata_version >= NO_EPOCH_BUMP_ON_SHRINK_SINCE
        self._elr = cluster.elr_enabled
        self._topic: Topic | None = None
        self._min_isr = 0

    def record(
        self, topic: Topic, index: int, leaving: Sequence[int], reason: str
    ) -> PartitionChangeRecord | None:
        """The record of a plain shrink by `leaving`, the departing members of the ISR, or None where
        this is not one."""
        if index in topic.rare or not self._possible:
            return None
        if topic is not self._topic:
            self._topic = topic
            self._min_isr = self._cluster.rules(topic).min_isr
        departing = self._departing
        isr = tuple([broker for broker in topic.isr[index] if broker not in departing])
        if not isr or not leaving:
            return None
        replicas = topic.replicas[index]
        elr = None
        if len(isr) < self._min_isr and len(isr) < len(replicas):
            if not self._elr:
                return None
            elr = tuple(leaving)
        leader = topic.leader[index]
        if leader in isr:
            if not self._lives(leader, replicas, topic.directories[index]):
                return None
            leader = LEADER_UNCHANGED
        elif leader in departing:
            directories = topic.directories[index]
            for broker in replicas:
                if broker in isr and self._lives(broker, replicas, directories):
                    leader = broker
                    reason = joined(reason, first_live(broker, "ISR"))
                    break
            else:
                return None
        else:
            return None
        return PartitionChangeRecord(
            partition_id=index,
            topic_id=topic.id,
            isr=isr,
            leader=leader,
            eligible_leader_replicas=elr,
            reason=reason or None,
        )

    def _lives(self, broker: int, replicas: Replicas, directories: tuple[Uuid, ...]) -> bool:
        homes = self._homes.get(broker)
        return homes is not None and directories[replicas.index(broker)] in homes
