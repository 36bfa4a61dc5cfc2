"""DescribeTopicPartitions.

Behaviour: topics in the order of their names, partition by partition, with ELR and last known ELR;
at most as many partitions as client and broker allow, then a cursor to continue from (KIP-966). The
cursor names one of the requested topics. A partition without a leader is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.cluster_view import TOPIC_OPERATIONS, ClusterView
from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS
from barnabas.config.topic_names import check_topic_name
from barnabas.metadata.image.topic import ORDINARY, Topic
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from barnabas.wire.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import DescribePartitionsRole


API = Api(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    mirrored_error(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
    "topic",
    "describe",
)


def handle(
    request: DescribeTopicPartitionsRequest, ctx: RequestContext, broker: DescribePartitionsRole
) -> DescribeTopicPartitionsResponse:
    image = broker.image
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's partition is negative")
    if cursor is not None and request.topics:
        if all(topic.name != cursor.topic_name for topic in request.topics):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{cursor.topic_name} of the cursor is not asked for"
            )
    names = {topic.name for topic in request.topics} or set(image.topics_by_name)
    left = min(
        max(request.response_partition_limit, 1), broker.config.broker.request_partitions_max
    )
    view = ClusterView(image, ctx.listener)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        if not left:
            return _page(topics, name, 0)
        topic = image.topics_by_name.get(name)
        if topic is None or name in image.incomplete_topics:
            topics.append(_missing(name))
            continue
        first = cursor.partition_index if cursor and name == cursor.topic_name else 0
        last = min(len(topic), first + left)
        topics.append(_describe(view, topic, first, last))
        left -= max(last - first, 0)
        if last < len(topic):
            return _page(topics, name, last)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=None)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], name: str, index: int
) -> DescribeTopicPartitionsResponse:
    """One page of `topics`, and the cursor of the next page."""
    return DescribeTopicPartitionsResponse(
        topics=topics, next_cursor=Cursor(topic_name=name, partition_index=index)
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if check_topic_name(name) is None
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe(
    view: ClusterView, topic: Topic, first: int, last: int
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in range(first, last):
        if not topic.has(index):
            continue
        found = view.partition(topic, index, unavailable_listeners=True)
        rare = topic.rare.get(index, ORDINARY)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=found.leader,
                leader_epoch=found.leader_epoch,
                replica_nodes=found.replicas,
                isr_nodes=found.isr,
                eligible_leader_replicas=rare.elr,
                last_known_elr=rare.last_known_elr,
                offline_replicas=found.offline,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
