"""DescribeQuorum: who votes, who observes, how far each is.

Behaviour: the leader only; the others say NOT_LEADER_OR_FOLLOWER of the partition. Asked with our tagged
field ``IncludeMetrics`` it adds what it measures of itself.
Version notes: v1 has the times of the last fetch and of having been caught up; v2 directory ids, error
messages and the voters' listeners (KIP-853).
"""

from __future__ import annotations

from typing import cast

from barnabas.raft.core import messages
from barnabas.raft.handlers.answering import only_partition
from barnabas.raft.raft_node import RaftNode
from barnabas.types import METADATA_TOPIC
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum_request import DescribeQuorumRequest
from barnabas.wire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    QuorumMetric,
    ReplicaState,
    TopicData,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

LISTENERS_SINCE = 2

API = Api(
    ApiKey.DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    top_level_error(DescribeQuorumResponse),
    "cluster",
    "describe",
)


def handle(request: DescribeQuorumRequest, ctx: RequestContext, role: RaftNode) -> Message | Parked:
    if only_partition(request.topics, "topic_name", "partition_index") is None:
        return _unknown_partitions(request)

    def encode(response: messages.Response) -> DescribeQuorumResponse:
        answer = cast(messages.DescribeResponse, response)
        if answer.error:
            return _refused(answer)
        full = _encode(answer, role)
        if ctx.api_version < LISTENERS_SINCE:
            full.nodes = []
        if request.include_metrics:
            full.metrics = [
                QuorumMetric(name=name, value=str(value))
                for name, value in role.metrics.describe(role.ports.clock.now_ms()).items()
            ]
        return full

    return role.ask(messages.DescribeRequest(), encode)


def _unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionData(
                        partition_index=part.partition_index,
                        error_code=unknown,
                        error_message=f"the quorum keeps {METADATA_TOPIC}-0 alone",
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refused(answer: messages.DescribeResponse) -> DescribeQuorumResponse:
    why = f"node {answer.leader_id} leads the quorum"
    part = PartitionData(partition_index=0, error_code=answer.error, error_message=why)
    return DescribeQuorumResponse(topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[part])])


def _encode(answer: messages.DescribeResponse, role: RaftNode) -> DescribeQuorumResponse:
    part = PartitionData(
        partition_index=0,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        high_watermark=answer.high_watermark,
        current_voters=[_replica(position, role) for position in answer.voters],
        observers=[_replica(position, role) for position in answer.observers],
    )
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[part])],
        nodes=[
            Node(
                node_id=node.key.id,
                listeners=[
                    Listener(name=name, host=at.host, port=at.port)
                    for name, at in node.endpoints.items()
                ],
            )
            for node in role.machine.voters.nodes.values()
        ],
    )


def _replica(position: messages.ReplicaPosition, role: RaftNode) -> ReplicaState:
    return ReplicaState(
        replica_id=position.key.id,
        replica_directory_id=position.key.directory_id,
        log_end_offset=position.end_offset,
        last_fetch_timestamp=_wall_ms(position.last_fetch_ms, role),
        last_caught_up_timestamp=_wall_ms(position.last_caught_up_ms, role),
    )


def _wall_ms(instant_ms: float | None, role: RaftNode) -> int:
    """A monotonic instant as milliseconds since 1970; -1 for None."""
    clock = role.ports.clock
    return -1 if instant_ms is None else int(clock.wall_ms() - (clock.now_ms() - instant_ms))
