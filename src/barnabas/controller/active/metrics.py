"""The metrics of a controller, under Kafka's names where there are such names.

``barnabas cluster metrics`` shows them. No count is kept up to date: a request for the metrics
computes the counts, in slices between which other requests are served. A million partitions cost a
twentieth of a second per request, and nothing otherwise.

Source: Kafka's ControllerMetadataMetrics and QuorumControllerMetrics; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.metadata.views.counts import Counts, count_in_slices

if TYPE_CHECKING:
    from barnabas.controller.active.quorum_controller import QuorumController

KAFKA = "kafka.controller:type=KafkaController,name="
STATS = "kafka.controller:type=ControllerStats,name="
PARTITIONS = "barnabas.controller:type=Partitions,name="
OWN = "barnabas.controller:type=Controller,name="
COUNTED = object()
"""Marks the end of the counting steps."""


def count_steps(
    role: QuorumController, on_counted: Callable[[dict[str, int]], None]
) -> Iterator[None]:
    """Count in steps; `on_counted` gets every metric by its name in the last step."""
    total = Counts()
    for part in count_in_slices(
        list(role.image.topics_by_id.values()), lambda topic: role.cluster.rules(topic).min_isr
    ):
        total = total.plus(part)
        yield
    on_counted(_metrics(role, total))


def count_then(role: QuorumController, on_counted: Callable[[dict[str, int]], None]) -> None:
    """Call `on_counted` with every metric by its name, in this turn or a later one."""
    steps = count_steps(role, on_counted)

    def turn() -> None:
        if next(steps, COUNTED) is None:
            role.ports.wakeups.call_soon(turn)

    role.ports.wakeups.call_soon(turn)


def _metrics(role: QuorumController, counts: Counts) -> dict[str, int]:
    image = role.image
    brokers = image.brokers.values()
    fenced = sum(1 for broker in brokers if broker.fenced)
    leaving = sum(1 for broker in brokers if broker.in_controlled_shutdown and not broker.fenced)
    return {
        f"{KAFKA}ActiveControllerCount": int(role.is_active),
        f"{KAFKA}ActiveBrokerCount": len(image.brokers) - fenced - leaving,
        f"{KAFKA}ControlledShutdownBrokerCount": leaving,
        f"{KAFKA}FencedBrokerCount": fenced,
        f"{KAFKA}GlobalTopicCount": counts.topics,
        f"{KAFKA}GlobalPartitionCount": counts.partitions,
        f"{KAFKA}OfflinePartitionsCount": counts.offline,
        f"{KAFKA}PreferredReplicaImbalanceCount": counts.not_preferred,
        f"{KAFKA}LastAppliedRecordOffset": image.offset,
        f"{KAFKA}LastCommittedRecordOffset": role.committed_offset,
        f"{KAFKA}LastAppliedRecordTimestamp": image.append_ms,
        f"{KAFKA}LastAppliedRecordLagMs": max(role.wall_ms() - image.append_ms, 0),
        f"{STATS}ElectionFromEligibleLeaderReplicasPerSec:Count": role.cluster.elr_elections,
        f"{STATS}UncleanLeaderElectionsPerSec:Count": role.cluster.unclean_elections,
        f"{PARTITIONS}New": counts.new,
        f"{PARTITIONS}Online": counts.online,
        f"{PARTITIONS}Offline": counts.offline - counts.new,
        f"{PARTITIONS}UnderReplicated": counts.under_replicated,
        f"{PARTITIONS}UnderMinIsr": counts.under_min_isr,
        f"{PARTITIONS}Reassigning": counts.reassigning,
        f"{PARTITIONS}Recovering": counts.recovering,
        **{f"{OWN}{name}": value for name, value in role.backlog().items()},
        **role.listener_metrics(),
    }
