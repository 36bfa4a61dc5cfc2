"""Invariant 6: on a leader the high watermark never goes back, and never passes the log's end."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.broker.broker import Broker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.types import TopicPartition


def led_partitions(broker: Broker) -> Iterator[tuple[TopicPartition, int, int, int]]:
    """(partition, leader epoch, high watermark, log end offset) of what a broker leads."""
    for partition in broker.replicas.leaders():
        if partition.log is not None and partition.leader is not None:
            log = partition.log
            yield partition.name, partition.leader.epoch, log.high_watermark, log.log_end_offset


class HighWatermarkNeverGoesBack:
    def __init__(self) -> None:
        self._last: dict[tuple[int, int, str], tuple[int, int]] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        assert node.node is not None
        broker = node.node.broker
        if broker is None:
            return
        life = node.machine.starts
        for partition, epoch, high_watermark, end in led_partitions(broker):
            name = str(partition)
            if high_watermark > end:
                raise Violation(
                    f"{name} on node {node.id}: high watermark {high_watermark} beyond {end}"
                )
            known = self._last.get((node.id, life, name))
            if known is not None and known[0] == epoch and high_watermark < known[1]:
                raise Violation(
                    f"{name} on node {node.id}, leader epoch {epoch}: high watermark went back"
                    f" from {known[1]} to {high_watermark}"
                )
            self._last[node.id, life, name] = (epoch, high_watermark)
