"""What becomes of partitions when brokers leave or arrive: ISR, ELR and leadership together.

One pass over the partitions a broker has replicas of; each gets at most one record, with all that
is known at once (every departing broker leaves its ISR in the same record).

Source: Kafka's ReplicationControlManager.generateLeaderAndIsrUpdates; KIP-841, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from barnabas.controller.cluster import Cluster
from barnabas.controller.decision import Decision
from barnabas.controller.partitions import PartitionChange
from barnabas.controller.shrink import PlainShrink
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.registrations import BrokerRegistration
from barnabas.metadata.topic import NO_LEADER
from barnabas.wire.schema import Message


def isr_updates(
    cluster: Cluster,
    keys: Iterable[int],
    reason: str | None,
    *,
    unclean_shutdown: int | None = None,
    only_leaderless: bool = False,
) -> Iterator[PartitionChangeRecord]:
    """The records for those of the partitions `keys` that change.

    Without a `reason` it is that of the departing brokers in the partition's ISR.
    Brokers in `cluster.departing` leave the ISR. `unclean_shutdown` leaves the ELR as well.
    With `only_leaderless`, partitions that have a leader are left alone. Nobody becomes able to lead
    because others leave: where none of those is in the ISR, nothing changes.
    """
    image, departing = cluster.image, cluster.departing
    slots = image.slots
    plain = departing and unclean_shutdown is None and not only_leaderless
    shrink = PlainShrink(cluster) if plain else None
    for key in keys:
        topic = slots[key >> 32]
        if topic is None:
            continue
        index = key & 0xFFFFFFFF
        leaving = [broker for broker in topic.isr[index] if broker in departing]
        if only_leaderless:
            if topic.leader[index] != NO_LEADER:
                continue
        elif not leaving and unclean_shutdown is None:
            if shrink is not None or topic.leader[index] != NO_LEADER:
                continue
        why = _reason_of(departing, leaving) if reason is None else reason
        if shrink is not None:
            record = shrink.record(topic, index, leaving, why)
            if record is not None:
                yield record
                continue
        change = PartitionChange(cluster, topic, index, why)
        if departing:
            change.without(departing)
        if unclean_shutdown is not None:
            change.unclean_shutdown = (unclean_shutdown,)
        record = change.build()
        if record is not None:
            yield record


def _reason_of(departing: Mapping[int, str], leaving: Sequence[int]) -> str:
    if len(leaving) == 1:
        return departing[leaving[0]]
    return "; ".join([departing[broker] for broker in leaving])


SLICE = 500
"""Partitions looked at in one turn of the loop."""


def in_slices(
    keys: Sequence[int], decide: Callable[[Sequence[int]], list[Message]]
) -> tuple[list[Message], Iterator[Decision[None]] | None]:
    """Records for all keys at once where they are few, else those of the first slice and the
    work that does the others."""
    if len(keys) <= SLICE:
        return decide(keys), None

    def others() -> Iterator[Decision[None]]:
        for start in range(SLICE, len(keys), SLICE):
            yield Decision(None, decide(keys[start : start + SLICE]))

    return decide(keys[:SLICE]), others()


def led_first(cluster: Cluster, broker: int) -> list[int]:
    """Keys of the broker's partitions, those it leads before those it follows: somebody waits for
    a leader more urgently than for an ISR."""
    image = cluster.image
    slots = image.slots
    led: list[int] = []
    followed: list[int] = []
    for key in image.partition_keys_of(broker):
        topic = slots[key >> 32]
        if topic is not None:
            (led if topic.leader[key & 0xFFFFFFFF] == broker else followed).append(key)
    return led + followed


def led_by(cluster: Cluster, broker: int) -> list[int]:
    """Keys of the partitions that the broker leads."""
    slots = cluster.image.slots
    keys = []
    for key in cluster.image.partition_keys_of(broker):
        topic = slots[key >> 32]
        if topic is not None and topic.leader[key & 0xFFFFFFFF] == broker:
            keys.append(key)
    return keys


def leaderless(cluster: Cluster, broker: int) -> list[int]:
    """Keys of the broker's partitions that have no leader."""
    image = cluster.image
    slots = image.slots
    keys = []
    for key in image.partition_keys_of(broker):
        topic = slots[key >> 32]
        if topic is not None and topic.leader[key & 0xFFFFFFFF] == NO_LEADER:
            keys.append(key)
    return keys


def leads_any(cluster: Cluster, broker: int) -> bool:
    """Whether the broker leads a partition."""
    slots = cluster.image.slots
    for key in cluster.image.partition_keys_of(broker):
        topic = slots[key >> 32]
        if topic is not None and topic.leader[key & 0xFFFFFFFF] == broker:
            return True
    return False


def fence_change(broker: BrokerRegistration, reason: str) -> BrokerRegistrationChangeRecord:
    """The record that fences a broker."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=1, reason=reason
    )


def fence_records(
    cluster: Cluster, brokers: Sequence[BrokerRegistration], reason: str
) -> list[Message]:
    """Fence brokers, all together: their partitions first, then themselves."""
    with cluster.leaving([broker.id for broker in brokers], reason):
        keys = dict.fromkeys(key for broker in brokers for key in led_first(cluster, broker.id))
        records: list[Message] = list(isr_updates(cluster, keys, reason))
    records += [fence_change(broker, reason) for broker in brokers]
    return records
