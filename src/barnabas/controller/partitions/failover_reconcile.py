"""A new controller's search for work that its predecessor may have left half done.

Decisions on many partitions are made in slices, so a controller can die between two slices. The
image shows what is missing: a broker that is not active still leads or is in an ISR where it need
not be, or a partition has no leader although one is possible. The search finds both, broker by
broker, and decides by the ordinary rules; if nothing is missing, it writes no record. The same
search follows when ELR is enabled or disabled, because the rules depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.leader_and_isr import isr_updates, partitions_leaders_first
from barnabas.metadata.image.topic import NO_LEADER


def reconcile(cluster: ControllerContext, why: str = "a new controller") -> Iterator[Decision[Any]]:
    """The decisions that complete a predecessor's work, in slices. `why` is part of their reasons,
    and says who searches."""
    image = cluster.image
    # Brokers that are not registered, too: in ZooKeeper mode a registration ends with its session,
    # even while there is no controller.
    for broker in sorted({*image.brokers, *image.broker_partitions.brokers()}):
        if cluster.is_active(broker):
            continue
        reason = f"broker {broker} is not active"
        for keys in partitions_leaders_first(cluster, broker):
            if cluster.is_active(broker):
                break  # it came back between two steps
            with cluster.leaving([broker], reason):
                decision = Decision(None, list(isr_updates(cluster, keys, reason)))
            if decision.size:
                decision.reason = f"{reason}: {decision.size} partitions are settled"
            yield decision
    yield from look_for_leaders(cluster, f"{why} looks for a leader")


def look_for_leaders(cluster: ControllerContext, reason: str) -> Iterator[Decision[Any]]:
    """Hold elections for every partition without a leader: its topic's rules may have changed."""
    looked, bounds = 0, cluster.bounds
    for topic in list(cluster.image.topics_by_id.values()):
        looked += len(topic)
        if looked >= bounds.leaders_scanned:
            looked = 0
            yield Decision(None)
        if NO_LEADER not in topic.leader:
            continue
        leaders = topic.leader
        leaderless = [
            topic.slot << 32 | index
            for index in range(len(leaders))
            if leaders[index] == NO_LEADER and topic.has(index)
        ]
        for start in range(0, len(leaderless), bounds.slice_max):
            keys = leaderless[start : start + bounds.slice_max]
            yield Decision(None, list(isr_updates(cluster, keys, reason, only_leaderless=True)))
