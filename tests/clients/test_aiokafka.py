"""aiokafka against a cluster of processes."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.checks import (
    CODECS,
    KillLeader,
    assert_read_once_in_order,
    fresh,
    number,
    payload,
)

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")
aiokafka_admin = pytest.importorskip("aiokafka.admin")
pytestmark = pytest.mark.process


async def wait_until(
    condition: Callable[[], Awaitable[bool]], what: str, limit_s: float = 40
) -> None:
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"waited {limit_s} s for {what}"


async def create(cluster: Cluster, topic: str, partitions: int = 3) -> None:
    client = aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await client.start()
    await client.create_topics([aiokafka_admin.NewTopic(topic, partitions, 3)])
    await client.close()


async def started_consumer(cluster: Cluster, topic: str, group: str) -> Any:
    client = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    await client.start()
    return client


async def poll(client: Any) -> list[tuple[int, int, int]]:
    return [
        (record.partition, record.offset, number(record.value))
        for records in (await client.getmany(timeout_ms=200)).values()
        for record in records
    ]


async def read(client: Any, count: int) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []

    async def enough() -> bool:
        found.extend(await poll(client))
        return len(found) >= count

    await wait_until(enough, f"{count} records")
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_are_read_back(cluster: Cluster, codec: str) -> None:
    async def scenario() -> None:
        topic = fresh("codec")
        await create(cluster, topic)
        try:
            client = aiokafka.AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap,
                acks="all",
                compression_type=None if codec == "none" else codec,
            )
        except RuntimeError as error:
            pytest.skip(f"the library for {codec} is not installed: {error}")
        await client.start()
        for index in range(300):
            await client.send(topic, payload(index), key=b"%d" % index)
        await client.flush()
        await client.stop()
        reader = await started_consumer(cluster, topic, fresh("g"))
        assert sorted(value for _, _, value in await read(reader, 300)) == list(range(300))
        await reader.stop()

    asyncio.run(scenario())


def test_a_group_of_two_rebalances_commits_and_resumes(cluster: Cluster) -> None:
    async def scenario() -> None:
        topic, group = fresh("group"), fresh("g")
        await create(cluster, topic, 4)
        client = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
        await client.start()
        for index in range(200):
            await client.send(topic, payload(index), partition=index % 4)
        await client.flush()
        first = await started_consumer(cluster, topic, group)
        assert len(await read(first, 200)) == 200
        await first.commit()
        second = await started_consumer(cluster, topic, group)

        async def shared() -> bool:
            await asyncio.gather(poll(first), poll(second))
            return len(first.assignment()) == 2 and len(second.assignment()) == 2

        await wait_until(shared, "two partitions each")
        owned = {p.partition for p in first.assignment() | second.assignment()}
        assert owned == {0, 1, 2, 3}
        await first.stop()
        await second.stop()
        for index in range(200, 240):
            await client.send(topic, payload(index), partition=index % 4)
        await client.flush()
        await client.stop()
        again = await started_consumer(cluster, topic, group)
        assert sorted(value for _, _, value in await read(again, 40)) == list(range(200, 240))
        await again.stop()

    asyncio.run(scenario())


def test_topics_are_created_listed_and_deleted(cluster: Cluster) -> None:
    async def scenario() -> None:
        topic = fresh("admin")
        await create(cluster, topic, 5)
        client = aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await client.start()

        async def there() -> bool:  # the broker that is asked knows it a moment later
            return topic in await client.list_topics()

        await wait_until(there, "the topic to be known")
        await client.delete_topics([topic])

        async def gone() -> bool:
            return topic not in await client.list_topics()

        await wait_until(gone, "deletion")
        await client.close()

    asyncio.run(scenario())


def test_acknowledged_records_survive_the_death_of_a_leader(cluster: Cluster) -> None:
    async def scenario() -> None:
        topic = fresh("failover")
        await create(cluster, topic)
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True
        )
        await client.start()
        acknowledged: dict[int, list[int]] = defaultdict(list)

        async def send_all(partition: int) -> None:
            for index in range(partition, 1800, 3):
                await client.send_and_wait(topic, payload(index), partition=partition)
                acknowledged[partition].append(index)

        with KillLeader(cluster, topic, lambda: sum(map(len, acknowledged.values())) > 300):
            await asyncio.gather(*(send_all(partition) for partition in range(3)))
        reader = await started_consumer(cluster, topic, fresh("g"))
        assert_read_once_in_order(acknowledged, await read(reader, 1800))
        await reader.stop()
        await client.stop()

    asyncio.run(scenario())
