"""Many new replicas: made a few per turn, and all of them followed whatever the pace."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.new_replicas import SLICE, NewReplicas
from barnabas.record.builder import build_batch
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.unit.broker.world import Cluster


def create(cluster: Cluster, partitions: int) -> None:
    topics = [
        CreatableTopic(name=f"t{i}", num_partitions=partitions, replication_factor=3)
        for i in range(3)
    ]
    answer = cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    assert not any(topic.error_code for topic in answer.topics)


def append_everywhere(cluster: Cluster) -> None:
    """One record to each partition that is led and empty."""
    now_ms = cluster.client.clock.wall_ms()
    for node in cluster.ids:
        for partition in list(cluster.broker(node).replicas.by_id.values()):
            if partition.leader is not None and partition.log and not partition.log.log_end_offset:
                partition.append(build_batch([(b"k", b"v")], timestamp_ms=now_ms), acks_all=True)


def lagging(cluster: Cluster) -> list[str]:
    return [
        f"{partition.name} on {follower.broker}"
        for node in cluster.ids
        for partition in cluster.broker(node).replicas.by_id.values()
        if partition.leader is not None and partition.log is not None
        for follower in partition.leader.followers.values()
        if follower.log_end_offset < partition.log.log_end_offset
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4])
def test_however_slowly_they_are_made_every_follower_catches_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that asked over two connections at once stayed behind for ever."""
    rng = Random(seed)

    def schedule(self: NewReplicas) -> None:
        if len(self) and not self._scheduled:
            self._scheduled = True
            later = self._ports.clock.now_ms() + rng.choice((1, 1, 2, 5, 30))
            self._ports.wakeups.call_at(later, self._go_on)

    monkeypatch.setattr(NewReplicas, "_schedule", schedule)
    cluster = Cluster(3, seed)
    create(cluster, 150)
    for _ in range(60):
        cluster.run(rng.choice((1, 5, 10, 20)))
        append_everywhere(cluster)
    cluster.until(lambda: not any(len(cluster.broker(n).replicas.new) for n in cluster.ids))
    append_everywhere(cluster)
    cluster.run(2_000)
    assert not lagging(cluster)


def test_few_are_made_at_once() -> None:
    cluster = Cluster(1)
    broker = cluster.broker()
    made: list[int] = []
    line = NewReplicas(
        broker.ports, broker.image, broker.node_id, lambda t, i: made.append(i), lambda: None
    )
    topics = [CreatableTopic(name="t", num_partitions=3 * SLICE, replication_factor=1)]
    cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    cluster.until(lambda: "t" in broker.image.topics_by_name)
    topic_id = broker.image.topics_by_name["t"].id
    line.add({(topic_id, index): None for index in range(SLICE)})
    assert made == list(range(SLICE))
    line.add({(topic_id, index): None for index in range(3 * SLICE)})
    assert len(line) == 3 * SLICE and len(made) == SLICE
    cluster.until(lambda: not len(line))
    assert made[SLICE:] == list(range(3 * SLICE))
    line.add({(topic_id, index): None for index in range(3 * SLICE)})
    line.clear()
    cluster.run(10)
    assert len(made) == 4 * SLICE
