"""Handles ISR members that registered again while there was no controller.

A controller removes a broker that registers again from its ISRs. If the controller died together with that
broker, the state znodes still name it as leader or member. Such a leader would continue in its old leader
epoch, and its log may lack records that it had sent to followers but not synced: one offset would have two
records in one epoch. The znodes show the case: the state was written before a member of its ISR registered.

Apache Kafka 3.9 does not check this: its controller keeps a leader that is registered.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.controller.decision import Record
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.leader_and_isr import isr_updates
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.zookeeper.controller.metadata_reader import FoundCluster

Partition = tuple[str, int]
REASON = "brokers {} registered again while there was no controller"


def reregistered_members(found: FoundCluster) -> dict[Partition, frozenset[int]]:
    """The ISR members of each partition whose registration is younger than the partition's state znode."""
    registered = {broker: czxid for broker, (_, czxid) in found.layout.brokers.items()}
    members = {}
    for name, topic in found.layout.topics.items():
        for index, state in topic.states.items():
            written = topic.written.get(index, 0)
            younger = [broker for broker in state.isr if registered.get(broker, -1) > written]
            if younger:
                members[name, index] = frozenset(younger)
    return members


def decide(cluster: ControllerContext, members: Mapping[Partition, frozenset[int]]) -> list[Record]:
    """Remove these members from the ISR if a live member remains. Otherwise all stay, and the leader gets a
    new leader epoch."""
    records: list[Record] = []
    leave: dict[frozenset[int], list[int]] = {}
    for (name, index), younger in sorted(members.items()):
        topic = cluster.image.topics_by_name.get(name)
        if topic is None or not topic.has(index):
            continue
        stay = [b for b in topic.isr[index] if b not in younger and cluster.is_active(b)]
        if stay:
            leave.setdefault(younger, []).append(topic.slot << 32 | index)
        elif topic.leader[index] in younger:
            records.append(
                PartitionChangeRecord(
                    partition_id=index,
                    topic_id=topic.id,
                    leader=topic.leader[index],
                    reason=REASON.format(sorted(younger)),
                )
            )
    for younger, keys in leave.items():
        with cluster.leaving(younger, REASON.format(sorted(younger))):
            records += isr_updates(cluster, keys, None)
    return records
