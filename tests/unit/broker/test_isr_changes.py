"""A leader and the answers to the changes of its ISR."""

from __future__ import annotations

import pytest

from barnabas.broker.partition import Partition
from barnabas.metadata.changes import Changes
from tests.unit.broker.world import Cluster


def members(partition: Partition) -> int:
    """Of the ISR that its leader counts with."""
    assert partition.leader is not None
    return len(partition.leader.isr)


def test_a_smaller_isr_holds_from_where_the_metadata_log_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer may come before a higher min.insync.replicas that stands before it in the log: with both
    late, the leader would commit alone, and who left is eligible."""
    cluster = Cluster(3)
    cluster.create_topic("t", 1, 3, min_insync_replicas="1")
    cluster.produce([b"a"])
    leader = cluster.leader("t")
    partition, replicas = cluster.partition(leader), cluster.broker(leader).replicas
    late: list[Changes] = []
    with monkeypatch.context() as patch:
        patch.setattr(replicas, "apply", late.append)
        dead = next(node for node in cluster.ids if node != leader)
        other = next(node for node in cluster.ids if node not in (leader, dead))
        cluster.sim.nodes[dead].kill()
        image = cluster.broker(other).image
        cluster.until(lambda: len(image.topics_by_name["t"].isr[0]) == 2)
        cluster.produce([b"b"], acks=1)
        cluster.run(500)
        assert members(partition) == 3
        assert partition.high_watermark == 1
    for changes in late:
        replicas.apply(changes)
    assert members(partition) == 2
    cluster.until(lambda: partition.high_watermark == 2)
