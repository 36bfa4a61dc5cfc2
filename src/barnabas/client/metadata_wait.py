"""Waits until every broker knows that a topic was created or deleted.

The quorum commits the change first; brokers replay it a moment later. A client that asks another broker in
between may not find the new topic, or still find the deleted one. In Apache Kafka programs have to cope with
that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.client.client import Client
from barnabas.client.network.backoff import RetryBackoff
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.cluster_metadata import PURPOSE
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

WAIT_MS = 2_000.0
"""Longest wait; a broker that has not answered by then may be dead."""
_NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def until_known(client: Client, name: str, topic_id: Uuid) -> None:
    """Wait until all brokers that answer know the topic `name` with this id."""

    def knows(topic: Any) -> bool:
        reported = Uuid(topic.topic_id)
        return not topic.error_code and (reported == topic_id or ZERO_UUID in (reported, topic_id))

    await _until(client, name, knows)


async def until_unknown(client: Client, name: str) -> None:
    """Wait until no broker that answers knows a topic of that name."""
    await _until(client, name, lambda topic: topic.error_code in _NO_TOPIC)


async def _until(client: Client, name: str, holds: Callable[[Any], bool]) -> None:
    deadline_ms = client.now_ms() + WAIT_MS

    async def ask(node: int) -> None:
        backoff = RetryBackoff()
        while (left_ms := deadline_ms - client.now_ms()) > 0:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
            )
            try:
                response = await client.ask_node(node, request, timeout_ms=left_ms, purpose=PURPOSE)
            except (ChannelError, KafkaError):
                return
            if all(holds(topic) for topic in response.topics):
                return
            await client.tasks.sleep(backoff.take())

    try:
        await client.cluster.refresh([name], timeout_ms=WAIT_MS)
    except ChannelError:
        return
    await client.tasks.gather([ask(node) for node in sorted(client.cluster.brokers)])
