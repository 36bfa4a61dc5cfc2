"""Invariant 11 at the end: the leader of a partition of the offsets topic coordinates its groups, and its
state equals the log, which this checker reads again from its first byte."""

from __future__ import annotations

from barnabas.broker.coordinator.coordinator_shard import CoordinatorShard
from barnabas.group.machine import GroupMachine
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments.transaction_index import marker_of
from barnabas.record.decode import records_of
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import OFFSETS_TOPIC, TopicPartition

Place = tuple[str, int]


class CoordinatorsKnowTheirLogs(Checker):
    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            for shard in serving(node):
                assert node.broker is not None
                logs = node.broker.logs.logs
                log = logs.get(TopicPartition(OFFSETS_TOPIC, shard.partition))
                if log is not None:
                    self._compare(node, shard, log)

    def _compare(
        self, node: SimNode, shard: CoordinatorShard[GroupMachine], log: PartitionLog
    ) -> None:
        where = f"{OFFSETS_TOPIC}-{shard.partition} on node {node.id}"
        reported: dict[str, dict[Place, int]] = {}
        pending: dict[int, list[tuple[str, Place, int]]] = {}
        """The offsets that hold once a producer's transaction is committed, by producer id."""
        for segment in log.segments:
            if node.machine.disk.is_rotten(segment.path):
                return  # what rotted is judged by who reads it
            for located in segment.headers():
                header = located.header
                if header.next_offset > log.high_watermark:
                    continue
                if header.is_control:
                    marker = marker_of(header, memoryview(segment.view(located).data))
                    ended = pending.pop(header.producer_id, [])
                    if marker is not None and not marker[0]:
                        for group_id, place, offset in ended:
                            reported.setdefault(group_id, {})[place] = offset
                    continue
                for record in records_of(segment.view(located)):
                    decoded = shard.machine.decode(record.key, record.value)
                    group = getattr(decoded, "key", None)
                    topic = getattr(group, "topic", None)
                    if group is None or topic is None:
                        continue
                    place = (topic, group.partition)
                    known = reported.setdefault(group.group, {})
                    value = getattr(decoded, "value", None)
                    if value is None:
                        known.pop(place, None)
                    elif header.is_transactional:
                        open_one = pending.setdefault(header.producer_id, [])
                        open_one.append((group.group, place, value.offset))
                    else:
                        known[place] = value.offset
        offsets = shard.machine.offsets
        groups = {*offsets.group_ids(), *reported}
        for group_id in sorted(groups):
            holds = {place: v.offset for place, v in offsets.committed_items(group_id)}
            if holds != reported.get(group_id, {}):
                raise Violation(
                    f"{where}: of {group_id} it holds {holds}, its log says {reported.get(group_id)}"
                )
