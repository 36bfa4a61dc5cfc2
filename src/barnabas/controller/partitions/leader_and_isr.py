"""Changes partitions when brokers leave or arrive: ISR, ELR and leadership together.

One pass goes over a broker's partitions. Each partition gets at most one record: every departing
broker leaves its ISR in the same record.

Source: Kafka's ReplicationControlManager.generateLeaderAndIsrUpdates; KIP-841, KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from barnabas.controller.decision import Record
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.isr_shrink_fast_path import IsrShrinkFastPath
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.metadata.image.topic import NO_LEADER
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)


def isr_updates(
    cluster: ControllerContext,
    keys: Iterable[int],
    reason: str | None,
    *,
    unclean_shutdown: int | None = None,
    only_leaderless: bool = False,
) -> Iterator[Record]:
    """The records for those of the partitions `keys` that change.

    Without a `reason` it is that of the departing brokers in the partition's ISR. Brokers in
    `cluster.departing` leave the ISR. `unclean_shutdown` leaves the ELR as well. With
    `only_leaderless`, partitions that have a leader are left alone. A partition without a departing
    broker in its ISR does not change: no replica becomes able to lead because others leave.
    """
    if cluster.departing and unclean_shutdown is None and not only_leaderless:
        yield from _departures(cluster, keys, reason)
        return
    departing = cluster.departing
    slots = cluster.image.slots
    for key in keys:
        topic = slots[key >> 32]
        if topic is None:
            continue
        index = key & 0xFFFFFFFF
        leaving = [broker for broker in topic.isr[index] if broker in departing]
        if only_leaderless:
            if topic.leader[index] != NO_LEADER:
                continue
        elif not leaving and unclean_shutdown is None and topic.leader[index] != NO_LEADER:
            continue
        why = _reason_of(departing, leaving) if reason is None else reason
        change = PartitionChangeBuilder(cluster, topic, index, why)
        if departing:
            change.without(departing)
        if unclean_shutdown is not None:
            change.unclean_shutdown = (unclean_shutdown,)
        record = change.build()
        if record is not None:
            yield record


def _departures(
    cluster: ControllerContext, keys: Iterable[int], reason: str | None
) -> Iterator[Record]:
    """The records for brokers that leave: plain shrinks together, the other changes one by one."""
    departing = cluster.departing
    departs = departing.__contains__
    slots = cluster.image.slots
    shrink = IsrShrinkFastPath(cluster, reason)
    for key in keys:
        topic = slots[key >> 32]
        if topic is None:
            continue
        index = key & 0xFFFFFFFF
        isr = topic.isr[index]
        leaving = tuple(filter(departs, isr))
        if not leaving or shrink.add(topic, index, isr, leaving):
            continue
        if shrink.pending_shrinks:
            yield shrink.drain()
        change = PartitionChangeBuilder(cluster, topic, index, shrink.reason(leaving))
        record = change.without(departing).build()
        if record is not None:
            yield record
    if shrink.pending_shrinks:
        yield shrink.drain()


def _reason_of(departing: Mapping[int, str], leaving: Sequence[int]) -> str:
    if len(leaving) == 1:
        return departing[leaving[0]]
    return "; ".join([departing[broker] for broker in leaving])


def partitions_leaders_first(cluster: ControllerContext, broker: int) -> Iterator[list[int]]:
    """Keys of the broker's partitions, in steps. Those that it leads come first, since clients wait for a
    leader more urgently than for an ISR. Each key comes once, by the partition's state at its step."""
    yield from _sifted(cluster, broker)
    slots = cluster.image.slots
    keys = cluster.image.partition_keys_of(broker)
    taken = bytearray(len(keys))
    yield from _led(cluster, keys, broker, taken)
    followed, bounds = [], cluster.bounds
    for at, key in enumerate(keys):
        if not taken[at] and slots[key >> 32] is not None:
            followed.append(key)
            if len(followed) == bounds.slice_max:
                yield followed
                followed = []
        elif not at % bounds.scanned_per_slice:
            yield []
    yield followed


def led_by(cluster: ControllerContext, broker: int) -> Iterator[list[int]]:
    """Keys of the partitions that the broker leads, in steps."""
    yield from _sifted(cluster, broker)
    yield from _led(cluster, cluster.image.partition_keys_of(broker), broker)


def replicas_of(cluster: ControllerContext, broker: int) -> Iterator[list[int]]:
    """Keys of the broker's partitions, in steps."""
    yield from _sifted(cluster, broker)
    keys, most = cluster.image.partition_keys_of(broker), cluster.bounds.slice_max
    for start in range(0, len(keys), most):
        yield list(keys[start : start + most])


def leaderless(cluster: ControllerContext, broker: int) -> Iterator[list[int]]:
    """Keys of the broker's partitions that have no leader, in steps."""
    yield from _sifted(cluster, broker)
    yield from _led(cluster, cluster.image.partition_keys_of(broker), NO_LEADER)


def _sifted(cluster: ControllerContext, broker: int) -> Iterator[list[int]]:
    """Steps without keys, until the broker's keys can be read without a delay."""
    for _ in cluster.image.broker_partitions.sift(broker):
        yield []


def _led(
    cluster: ControllerContext, keys: Sequence[int], leader: int, taken: bytearray | None = None
) -> Iterator[list[int]]:
    """The keys whose partition `leader` leads, in steps. A step is empty where many keys were looked at in
    vain; `taken` notes the positions of the keys that were found."""
    slots = cluster.image.slots
    step, bounds = [], cluster.bounds
    for at, key in enumerate(keys):
        topic = slots[key >> 32]
        if topic is not None and topic.leader[key & 0xFFFFFFFF] == leader:
            step.append(key)
            if taken is not None:
                taken[at] = 1
            if len(step) == bounds.slice_max:
                yield step
                step = []
        elif not at % bounds.scanned_per_slice:
            yield []
    yield step


def leads_any(cluster: ControllerContext, broker: int) -> bool:
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
    cluster: ControllerContext, brokers: Sequence[BrokerRegistration], reason: str
) -> list[Record]:
    """Fence brokers, all together: their partitions first, then themselves."""
    with cluster.leaving([broker.id for broker in brokers], reason):
        steps = (
            step for broker in brokers for step in partitions_leaders_first(cluster, broker.id)
        )
        keys = dict.fromkeys(key for step in steps for key in step)
        records: list[Record] = list(isr_updates(cluster, keys, reason))
    records += [fence_change(broker, reason) for broker in brokers]
    return records
