"""The content of every replica when everything is whole, to be compared after a clean restart of it all: such
a restart forgets nothing."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.partitions.partition import Partition
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import Violation
from barnabas.types import Uuid

Key = tuple[int, Uuid, int]
"""Node, topic, partition."""


class Held(NamedTuple):
    name: str
    start: int
    high_watermark: int
    end: int
    epochs: list[tuple[int, int]]
    producers: dict[int, tuple[int, int]]
    """Producer id → epoch and last sequence."""

    def committed(self) -> tuple[list[tuple[int, int]], dict[int, tuple[int, int]] | None]:
        """Epochs and producers of what no other leader can have truncated and overwritten."""
        mark = self.high_watermark
        runs = [run for run in self.epochs if run[1] < mark]
        return runs, self.producers if mark == self.end else None


class ClusterState:
    def __init__(self, cluster: SimCluster) -> None:
        self.forgets = "producer.id.expiration.ms" in cluster.topology.settings
        """Whether producers may expire meanwhile."""
        self.held = dict(_all(cluster))

    def compare(self, cluster: SimCluster) -> None:
        """Raises :class:`Violation` where something is gone."""
        present = dict(_all(cluster))
        for key, before in self.held.items():
            now = present.get(key)
            if now is None:
                continue  # its topic may have been deleted, or it has moved
            where = f"{before.name} on node {key[0]} before and after a clean restart"
            if now.start < before.start or now.end < before.high_watermark:
                raise Violation(f"{where}: {before} and {now}")
            if self.forgets:
                before, now = before._replace(producers={}), now._replace(producers={})
            if now[1:4] == before[1:4] and now.committed() != before.committed():
                raise Violation(f"{where}: {before} and {now}")


def _all(cluster: SimCluster) -> list[tuple[Key, Held]]:
    return [
        ((node.id, *key), held)
        for node in cluster.up()
        if node.broker is not None
        for key, partition in node.broker.replicas.by_id.items()
        if (held := _held(partition)) is not None
    ]


def _held(partition: Partition) -> Held | None:
    log = partition.log
    if log is None:
        return None
    producers = {
        producer_id: (entry.epoch, entry.last_sequence)
        for producer_id, entry in sorted(log.producers.entries.items())
    }
    epochs = [(epoch, start) for epoch, start in log.epochs.entries() if start < log.log_end_offset]
    return Held(
        str(partition.name),
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        epochs,
        producers,
    )
