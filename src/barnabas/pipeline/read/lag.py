"""How far a query is behind its topics: in a consumer group for tools, in its progress for itself.

Owns the commit of a query's offsets to a group without members, so that ``barnabas groups describe`` and
Kafka's own tools show its lag, and the numbers of its progress. Neither is read again by the query: Spark's
checkpoint alone says where it continues. A commit that fails is a warning, never the query's end.

Source: KIP-98's OffsetCommit by a simple consumer (generation -1); the metrics of Spark's Kafka source.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping

from barnabas.client.client import GROUP
from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.checkpoint import query_of
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.offsets import PartitionOffsets, from_json
from barnabas.pipeline.options import SourceOptions
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_commit_response import OffsetCommitResponse

log = logging.getLogger(__name__)

BEHIND = "(behind)"
"""Key in the progress beside topics; no topic can have this name."""
SECONDS = "secondsBehindLatest"
"""Key within it: the age of the next record of the partition that is furthest behind."""
TOPICS_BY_NAME = 9
"""The last version of OffsetCommit that names topics."""
TIMEOUT_MS = 3_000.0
NO_GENERATION = -1
PREFIX = "spark-"
"""How the group of a query begins; its id follows."""


def behind(
    at: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> dict[str, int]:
    """Offsets between where a query is and where its partitions end."""
    left = [max(latest[partition] - at.get(partition, 0), 0) for partition in sorted(latest)]
    total = sum(left)
    return {
        "offsets": total,
        "minOffsetsBehindLatest": min(left, default=0),
        "maxOffsetsBehindLatest": max(left, default=0),
        "avgOffsetsBehindLatest": round(total / len(left)) if left else 0,
    }


def offsets_in_progress(text: str | None) -> PartitionOffsets:
    """Offsets of a source as a query's progress has them. Empty where they are another format's."""
    try:
        raw = json.loads(text or "{}")
        return from_json({name: offsets for name, offsets in raw.items() if name[:1] != "("})
    except (ValueError, AttributeError, TypeError):
        return {}


def group_of(options: SourceOptions) -> str | None:
    """The group in which a stream commits how far it is: ``kafka.group.id``, or that of ``groupIdPrefix`` and
    the query's id, which is in the checkpoint. None: nowhere."""
    if options.group is not None or options.group_prefix is None or options.checkpoint is None:
        return options.group
    query = query_of(options.checkpoint)
    return f"{options.group_prefix}-{query}" if query is not None else None


def commit_offsets(cluster: ClusterClient, group: str, offsets: PartitionOffsets) -> bool:
    """Commit where the query is. Whether it was done; if not, a warning says why."""
    if not offsets:
        return True
    topics = by_topic(
        (topic, OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset))
        for (topic, partition), offset in sorted(offsets.items())
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    try:
        cluster.ask_coordinator(
            GROUP,
            group,
            request,
            OffsetCommitResponse,
            _codes,
            at_most=TOPICS_BY_NAME,
            patience_ms=TIMEOUT_MS,
        )
    except (KafkaError, ChannelError, PipelineError) as error:
        log.warning("pipeline.lag_not_committed: group %s: %s", group, error)
        return False
    return True


def _codes(response: OffsetCommitResponse) -> Iterator[int]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield partition.error_code
