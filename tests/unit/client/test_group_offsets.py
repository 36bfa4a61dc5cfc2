"""A tool that sets or deletes the offsets of a share group reads the new ones with its next request."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas.client.group_offsets import alter_share_starts, delete_share_starts, share_starts
from barnabas.types import TopicPartition
from tests.unit.broker.world import Cluster
from tests.unit.client.test_share_consumer import SETTINGS

PARTITIONS = 2
ROUNDS = 5


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(3, **SETTINGS)
    cluster.create_topic("t", PARTITIONS, 3)
    return cluster


def finish(cluster: Cluster, coroutine: Coroutine[Any, Any, Any]) -> Any:
    task = cluster.sim.client("runs").tasks.start(coroutine)
    cluster.until(lambda: task.done, 90_000)
    return task.result()


def test_offsets_that_were_set_are_read_at_once(cluster: Cluster) -> None:
    client = cluster.sim.client("admin")

    async def set_and_read(group_id: str, offset: int) -> list[int]:
        wanted = {TopicPartition("t", index): offset for index in range(PARTITIONS)}
        await alter_share_starts(client, group_id, wanted)
        found = await share_starts(client, group_id)
        return [found[place].offset for place in wanted if place in found]

    for number in range(ROUNDS):
        for offset in (number, number + 1):
            read = finish(cluster, set_and_read(f"g{number}", offset))
            assert read == [offset] * PARTITIONS


def test_offsets_that_were_deleted_can_be_set_at_once(cluster: Cluster) -> None:
    client = cluster.sim.client("admin")

    async def delete_and_set() -> list[int]:
        await alter_share_starts(client, "g", {TopicPartition("t", 0): 3})
        refusals = await delete_share_starts(client, "g", ["t"])
        assert list(refusals.values()) == [None]
        assert await share_starts(client, "g") == {}
        await alter_share_starts(client, "g", {TopicPartition("t", 1): 4})
        return [start.offset for start in (await share_starts(client, "g")).values()]

    assert finish(cluster, delete_and_set()) == [4]
