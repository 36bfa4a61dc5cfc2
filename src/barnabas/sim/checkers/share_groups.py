"""The invariants of share groups that need a look inside: who leads, and what share coordinators keep.

:class:`ShareLeaders` follows which leader serves a share partition, for the ledger of what members saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.broker.coordinator.coordinator_shard import CoordinatorShard
from barnabas.broker.share.led_partitions import LedSharePartition
from barnabas.broker.share.share_partition import SharePartition
from barnabas.broker.share.share_sessions import Member
from barnabas.record.decode import records_of
from barnabas.share.key import SharePartitionKey
from barnabas.share.machine import ShareMachine
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.sim.share_ledger import SHARED, Server
from barnabas.types import SHARE_STATE_TOPIC, TopicPartition


def led_partition(node: SimNode, group: str, partition: int) -> LedSharePartition | None:
    """The share partition, where `node` leads it."""
    broker = node.broker
    shares = None if broker is None else broker.shares.opened
    if broker is None or shares is None:
        return None
    topic = broker.image.topics_by_name.get(SHARED)
    if topic is None:
        return None
    return shares.led.find(SharePartitionKey(group, topic.id, partition))


def led_machine(node: SimNode, group: str, partition: int) -> SharePartition | None:
    """The share partition's state, where `node` has loaded it."""
    led = led_partition(node, group, partition)
    return None if led is None else led.share_partition


def serving_shares(node: SimNode) -> Iterator[CoordinatorShard[ShareMachine]]:
    """The share coordinators on a node that have loaded their partition and take operations."""
    broker = node.broker
    shares = None if broker is None else broker.shares.opened
    if shares is not None:
        for shard in shares.coordinators.shards.values():
            if shard.active:
                yield shard


class ShareLeaders(Checker):
    """The life of each share partition at each node."""

    def __init__(self, groups: Sequence[str], partitions: int) -> None:
        self._places = [(group, index) for group in groups for index in range(partitions)]
        self._known: dict[tuple[int, str, int], tuple[SharePartition | None, int, float]] = {}
        """Node, group and partition → its state there, the number of that life, and since when."""
        self._lives = 0
        self._nodes: dict[int, SimNode] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        self._nodes[node.id] = node
        for group, index in self._places:
            machine = led_machine(node, group, index)
            key = (node.id, group, index)
            known = self._known.get(key)
            if known is None or known[0] is not machine:
                self._lives += 1
                self._known[key] = (machine, self._lives, cluster.world.now_ms)

    def server_of(self, group: str, partition: int, node: int, since_ms: float) -> Server | None:
        """The leader at `node`, if it has been that since `since_ms`."""
        known = self._known.get((node, group, partition))
        if known is None or known[0] is None or known[2] > since_ms:
            return None
        led = led_partition(self._nodes[node], group, partition)
        return None if led is None else (known[1], led.partition.leader_epoch)

    def session_of(self, group: str, member_id: str, node: int) -> object:
        """The member's session at `node`; None where it has none."""
        found = self._nodes.get(node)
        broker = None if found is None else found.broker
        shares = None if broker is None else broker.shares.opened
        return None if shares is None else shares.fetches.sessions.get(Member(group, member_id))


class ShareStateStays(Checker):
    """A share partition's kept start and leader epoch never go back."""

    EVENTS_BETWEEN_CHECKS = 100

    def __init__(self) -> None:
        self._kept: dict[SharePartitionKey, tuple[int, tuple[int, int, int]]] = {}
        """The newest coordinator's epoch, and state epoch, leader epoch and start."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        for shard in serving_shares(node):
            for key, state in shard.machine.states.committed_items():
                if key.group_id == "" or state is None:
                    continue
                epoch, kept = self._kept.get(key, (-1, (-1, -1, -1)))
                now = (state.state_epoch, state.leader_epoch, state.start_offset)
                if shard.leader_epoch < epoch:
                    continue  # it does not know of its successor yet
                if now[0] == kept[0] and (now[1] < kept[1] or now[2] < kept[2]):
                    raise Violation(
                        f"{key} on node {node.id}: state epoch, leader epoch and start were {kept}, and are"
                        f" {now}"
                    )
                self._kept[key] = (shard.leader_epoch, now)


class ShareCoordinatorsKnowTheirLogs(Checker):
    """At the end a share coordinator's state is what its log says, read again from the first byte."""

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            for shard in serving_shares(node):
                self._compare(node, shard)

    def _compare(self, node: SimNode, shard: CoordinatorShard[ShareMachine]) -> None:
        assert node.broker is not None
        log = node.broker.logs.logs.get(TopicPartition(SHARE_STATE_TOPIC, shard.partition))
        if log is None:
            return
        again = ShareMachine(shard.machine.settings, lambda topic_id: 1 << 30)
        for segment in log.segments:
            if node.machine.disk.is_rotten(segment.path):
                return  # what rotted is judged by who reads it
            for located in segment.headers():
                header = located.header
                if header.next_offset > log.high_watermark or header.is_control:
                    continue
                for record in records_of(segment.view(located)):
                    decoded = again.decode(record.key or b"", record.value)
                    if decoded is not None and record.offset >= log.log_start_offset:
                        again.replay(record.offset, -1, decoded)
        again.commit_to(log.high_watermark)
        holds = dict(shard.machine.states.committed_items())
        says = dict(again.states.committed_items())
        if holds != says:
            raise Violation(
                f"{SHARE_STATE_TOPIC}-{shard.partition} on node {node.id}: it holds {holds}, its log says"
                f" {says}"
            )
