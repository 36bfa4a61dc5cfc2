"""An address that has become another node's: the client asks its bootstrap servers again (KIP-1242)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from tests.unit.client.fake_cluster import FakeCluster


def refresh(client: Client, cluster: FakeCluster) -> None:
    done: list[Any] = []
    client.tasks.start(client.cluster.refresh(every=True, timeout_ms=5_000.0), done.append)
    cluster.world.run(cluster.world.clock.now_ms() + 5_000.0)
    done[0].result()


@pytest.mark.parametrize("becomes", ["another node", "another cluster"])
def test_a_client_begins_again_where_another_node_answers(
    becomes: str,
) -> None:
    cluster = FakeCluster(nodes=2)
    client = Client(cluster.world, [cluster.endpoints[1]])
    refresh(client, cluster)
    former = dict(cluster.endpoints)
    assert client.cluster.brokers == former
    for node in (1, 2):
        cluster.kill(node)
    if becomes == "another node":
        cluster.endpoints = {1: former[2], 2: former[1]}
    else:
        cluster.cluster_id = "d"
    for node in (1, 2):
        cluster.start(node)
    cluster.world.run(cluster.world.clock.now_ms() + 100.0)
    got: list[Any] = []
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    client.channels.send(former[2], request, got.append)
    cluster.world.run(cluster.world.clock.now_ms() + 1_000.0)
    assert isinstance(got[0], ChannelError) and got[0].kind == "misrouted"
    assert client.cluster.brokers == {}
    refresh(client, cluster)
    assert client.cluster.brokers == cluster.endpoints
    assert client.cluster.cluster_id == cluster.cluster_id
