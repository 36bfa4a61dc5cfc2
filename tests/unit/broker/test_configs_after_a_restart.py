"""A broker opens its logs before it knows any metadata: what topics say of compaction and retention counts as
soon as they are known, however many partitions come at once."""

from __future__ import annotations

import pytest

from barnabas.limits import ReplicaBounds
from barnabas.types import TopicPartition
from tests.unit.broker.world import Cluster

NEW_SLICE = ReplicaBounds().created_per_turn


@pytest.mark.parametrize("partitions", [NEW_SLICE, 2 * NEW_SLICE + 4])
def test_a_topics_own_settings_hold_after_a_restart(partitions: int) -> None:
    cluster = Cluster(1)
    cluster.create_topic(
        "t", partitions=partitions, replication=1, cleanup_policy="compact", retention_ms="-1"
    )
    cluster.run(1000)
    [only] = cluster.ids

    def settings() -> list[object]:
        logs = cluster.broker(only).logs.logs
        return [logs[TopicPartition("t", index)].config for index in range(partitions)]

    before = settings()
    assert {config.cleanup_policy for config in before} == {("compact",)}  # type: ignore[attr-defined]
    cluster.sim.nodes[only].shut_down()
    cluster.until(lambda: not cluster.sim.nodes[only].is_up)
    cluster.sim.nodes[only].start()
    cluster.run(20_000)
    assert settings() == before
