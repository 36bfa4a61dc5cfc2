"""Groups of all brokers, while one of them dies."""

from __future__ import annotations

import pytest

from barnabas.client import offsets
from barnabas.client.admin import Admin
from barnabas.client.client import Client
from barnabas.client.groups import GroupListing
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import CommittedOffset, GroupIdentity
from barnabas.sim.cluster import CLIENT_PORT
from barnabas.types import Endpoint, TopicPartition
from tests.unit.broker.world import Cluster

GROUPS = [f"g{number}" for number in range(12)]


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [False, True])
def test_the_groups_of_a_broker_that_died_are_listed_by_who_has_them_now(hangs: bool) -> None:
    """It was asked again for a minute, after which the others' were not returned either."""
    cluster = Cluster(3, offsets_topic_num_partitions="6")
    cluster.create_topic("t", 1, 3)
    bootstrap = [Endpoint(f"n{node}", CLIENT_PORT) for node in cluster.ids]
    client = Client(cluster.client, bootstrap, "lister")

    async def commit() -> None:
        for group in GROUPS:
            committed = {TopicPartition("t", 0): CommittedOffset(1)}
            await offsets.commit(client, GroupIdentity(group), committed)

    done: list[TaskOutcome[None]] = []
    client.tasks.start(commit(), done.append)
    cluster.until(lambda: done)
    done[0].result()
    homes = {node: cluster.broker(node).groups.shards for node in cluster.ids}
    assert all(homes.values())
    dead = cluster.sim.nodes[cluster.ids[-1]]
    if hangs:
        for host in ("n1", "n2", "client"):
            cluster.sim.network.cut(host, dead.machine.host)
            cluster.sim.network.cut(dead.machine.host, host)
    else:
        dead.kill()
    listed: list[TaskOutcome[list[GroupListing]]] = []
    began = cluster.world.now_ms
    client.tasks.start(Admin(client).list_groups(), listed.append)
    cluster.until(lambda: listed, 70_000)
    assert [group.group_id for group in listed[0].result()] == sorted(GROUPS)
    assert cluster.world.now_ms - began < (45_000 if hangs else 20_000)
