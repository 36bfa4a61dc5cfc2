"""Clients that are bound to older versions do what others do."""

from __future__ import annotations

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.network.legacy_requests import Newest
from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit, committed_offsets
from barnabas.client.producers.producer import Producer
from barnabas.client.records import ProducerRecord
from barnabas.sim.cluster import SimCluster, Topology
from barnabas.sim.swarm import draw
from barnabas.sim.workload.api_versions import BY_NAME, LIBRDKAFKA, OLDEST
from barnabas.sim.world.world import World
from barnabas.types import TopicPartition

PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize("newest", [{}, BY_NAME, LIBRDKAFKA, OLDEST])
def test_a_client_bound_to_older_versions_writes_reads_and_commits(newest: Newest) -> None:
    world = World(1)
    cluster = SimCluster(world, Topology(1))
    cluster.start_all()
    client = cluster.client("c", newest)
    found: list[object] = []

    async def work() -> None:
        await Admin(client).create_topics([NewTopic("t", 1, 1, {})])
        await client.cluster.refresh(["t"])
        await Producer(client).send(ProducerRecord("t", b"v", None, 0))
        consumer = Consumer(client, "g", ConsumerSettings(auto_offset_reset="earliest"))
        consumer.subscribe(["t"])
        while not (records := consumer.poll()):
            await client.tasks.sleep(100)
        await consumer.commit()
        await consumer.close()
        await commit(client, GroupIdentity("h"), {PLACE: CommittedOffset(7)})
        for group in ("g", "h"):
            found.append((await committed_offsets(client, group, [PLACE]))[PLACE].offset)
            found.append((await committed_offsets(client, group))[PLACE].offset)
        found.append(records[0].value)

    client.tasks.start(work())
    assert world.run(60_000, lambda: len(found) == 5)
    assert found == [1, 1, 7, 7, b"v"]


@pytest.mark.slow
def test_some_seeds_have_clients_of_several_kinds() -> None:
    drawn = [draw(World(seed).rng).workload.newest for seed in range(1, 60)]
    kinds = [bounds for newest in drawn for bounds in newest.values()]
    assert not all(drawn)
    assert all(kind in kinds for kind in ({}, BY_NAME, LIBRDKAFKA, OLDEST))
