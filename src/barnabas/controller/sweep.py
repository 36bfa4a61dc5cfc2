"""What a new controller looks through: work that its predecessor may have left half done.

Decisions over many partitions are made in slices, so a controller can die between them. What is
left shows in the image itself: a broker that is not active still leads or is in an ISR where it
need not be; a partition has no leader although one is possible. Both are found broker by broker
and decided by the ordinary rules; where all was done, this writes nothing. The same is looked through
when ELR is switched on or off, on which those rules rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.controller.cluster import Cluster
from barnabas.controller.decision import Decision
from barnabas.controller.isr import SLICE, isr_updates, led_first
from barnabas.metadata.topic import NO_LEADER
from barnabas.wire.schema import Message


def sweep(cluster: Cluster, why: str = "a new controller") -> Iterator[Decision[Any]]:
    """The decisions, in slices; `why` says in their reasons who looks."""
    image = cluster.image
    for broker in sorted(image.brokers):
        if cluster.is_active(broker):
            continue
        keys = led_first(cluster, broker)
        reason = f"broker {broker} is not active"
        for start in range(0, len(keys), SLICE):
            with cluster.leaving([broker], reason):
                records = list[Message](isr_updates(cluster, keys[start : start + SLICE], reason))
            what = f"{reason}: {len(records)} partitions are settled" if records else ""
            yield Decision(None, records, what)
    yield from look_for_leaders(cluster, f"{why} looks for a leader")


def look_for_leaders(cluster: Cluster, reason: str) -> Iterator[Decision[Any]]:
    """Elections for every partition without a leader: its topic's rules may have changed."""
    image = cluster.image
    leaderless = []
    for topic in list(image.topics_by_id.values()):
        if NO_LEADER in topic.leader:
            leaderless += [
                topic.slot << 32 | index
                for index, leader in enumerate(topic.leader)
                if leader == NO_LEADER and topic.has(index)
            ]
    for start in range(0, len(leaderless), SLICE):
        keys = leaderless[start : start + SLICE]
        records: list[Message] = list(isr_updates(cluster, keys, reason, only_leaderless=True))
        yield Decision(None, records)
