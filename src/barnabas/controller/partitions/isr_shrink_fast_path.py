"""Fast path for the ordinary end of a broker: it leaves the ISR of partitions with no other change under way.

The end of a broker with thirty thousand partitions causes as many decisions at once, nearly all of
the same plain kind. No other change of the partition is under way. If the leader is gone, the first
live ISR member in the order of assignment follows. If fewer than min ISR remain, members that leave
enter the ELR. Such a decision needs no
:class:`~barnabas.controller.partitions.partition_change.PartitionChangeBuilder` and no record of
its own. A property test shows that the result equals the builder's. All other decisions are the
builder's.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import filterfalse

from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.elections import first_live
from barnabas.metadata.features import NO_EPOCH_BUMP_ON_SHRINK_SINCE, record_versions
from barnabas.metadata.image.bulk_isr_shrinks import Shrinks
from barnabas.metadata.image.codec import SHRINKS_SINCE
from barnabas.metadata.image.fast_encode import LIST_MAX, reason_tag
from barnabas.metadata.image.topic import LEADER_UNCHANGED, NO_LEADER, Replicas, Topic


class IsrShrinkFastPath:
    """Decides the shrinks of one pass, during which the cluster does not change. Without a
    `reason`, each record's reason names the departing brokers in the partition's ISR."""

    __slots__ = (
        "_clean",
        "_cluster",
        "_departing",
        "_elr",
        "_given",
        "_online",
        "_min_isr",
        "_possible",
        "_topic",
        "pending_shrinks",
    )

    def __init__(self, cluster: ControllerContext, reason: str | None) -> None:
        self._cluster = cluster
        self._departing = cluster.departing
        self._given = reason.encode() if reason else b""
        self._online = cluster.online_directories()
        """The online directories; partitions on brokers that named none are left to the builder."""
        version = cluster.image.metadata_version
        self._possible = (
            version >= NO_EPOCH_BUMP_ON_SHRINK_SINCE
            and record_versions(version).partition_change >= SHRINKS_SINCE
        )
        self._elr = cluster.elr_enabled
        self._topic: Topic | None = None
        self._min_isr = 0
        self._clean = False
        """Whether the topic forbids unclean leaders."""
        self.pending_shrinks = Shrinks()
        """The shrinks that are decided and not drained."""

    def drain(self) -> Shrinks:
        """Take the shrinks that were decided since the last call."""
        drained, self.pending_shrinks = self.pending_shrinks, Shrinks()
        return drained

    def add(self, topic: Topic, index: int, isr: Replicas, leaving: Replicas) -> bool:
        """Decide a plain shrink, by which the members `leaving` leave `isr`. Returns False if this change
        is not a plain one."""
        replicas, departing = topic.replicas[index], self._departing
        if index in topic.rare or not self._possible or len(replicas) > LIST_MAX:
            return False
        if topic is not self._topic:
            self._look_at(topic)
        leader = topic.leader[index]
        left = len(isr) - len(leaving)
        if not left:
            return self._add_last(topic, index, leader, isr)
        elr = None
        if left < self._min_isr and left < len(replicas):
            if not self._elr:
                return False
            elr = leaving
        text = self._given or _encoded(tuple([departing[broker] for broker in leaving]))
        online, directories = self._online, topic.directories[index]
        if leader in leaving:
            for at, broker in enumerate(replicas):
                if broker in isr and broker not in leaving:
                    if directories[at] in online.get(broker, ()):
                        break
            else:
                return False
            leader = broker
            text += _led_by(leader)
        elif leader in isr:
            if directories[replicas.index(leader)] not in online.get(leader, ()):
                return False
            leader = LEADER_UNCHANGED
        else:
            return False
        staying = tuple(filterfalse(leaving.__contains__, isr))
        self.pending_shrinks.add(topic.id, index, leader, staying, elr, None, reason_tag(text))
        return True

    def _look_at(self, topic: Topic) -> None:
        self._topic = topic
        rules = self._cluster.rules(topic)
        self._min_isr = rules.min_isr
        self._clean = not rules.unclean

    def _add_last(self, topic: Topic, index: int, leader: int, isr: Replicas) -> bool:
        """Decide for an ISR that leaves as a whole, while no replica may lead uncleanly: the ISR
        becomes the ELR, and the record keeps the last leader."""
        if not self._elr or not self._clean or leader not in isr:
            return False
        text = self._given or _encoded(tuple([self._departing[broker] for broker in isr]))
        why = f": no member of the ELR {list(isr)} is available"
        tag = reason_tag(text + why.encode())
        self.pending_shrinks.add(topic.id, index, NO_LEADER, (), isr, (leader,), tag)
        return True

    def reason(self, leaving: Replicas) -> str:
        """The reason why these brokers leave the ISR."""
        if self._given:
            return self._given.decode()
        return _joined(tuple([self._departing[broker] for broker in leaving]))


# Many records share few reasons.


def _joined(reasons: tuple[str, ...]) -> str:
    return "; ".join(reasons)


@lru_cache(maxsize=16_384)
def _encoded(reasons: tuple[str, ...]) -> bytes:
    return _joined(reasons).encode()


@lru_cache(maxsize=4096)
def _led_by(leader: int) -> bytes:
    return f": {first_live(leader, 'ISR')}".encode()
