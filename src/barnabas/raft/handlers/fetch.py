"""Fetch of ``__cluster_metadata`` from its leader, on the controller listener.

Behaviour: answers with batches up to the log's end, committed or not; with the point where the logs
part; or with the id of a snapshot. Where nothing is new it waits, until something is appended, the
high watermark has passed what the follower knows (KIP-1166), or `max_wait_ms` is over. The fetch
offset tells what the follower has on disk and moves the high watermark. No sessions.
Version notes: up to v12 the topic has a name, from v13 an id; the replica's id moves at v15; v17
has the directory id and says where the leader is, v18 the follower's high watermark.
"""

from __future__ import annotations

from typing import cast

from barnabas.raft import messages
from barnabas.raft.driver import QuorumReplica
from barnabas.raft.handlers.answering import check_cluster, node_endpoints
from barnabas.raft.voters import ReplicaKey
from barnabas.types import METADATA_TOPIC, METADATA_TOPIC_ID, Records
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest
from barnabas.wire.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from barnabas.wire.request import Api, Parked, RequestContext, top_level_error
from barnabas.wire.schema import Message

API = Api(ApiKey.FETCH, FetchRequest, top_level_error(FetchResponse), "cluster", "cluster-action")


def handle(request: FetchRequest, ctx: RequestContext, role: QuorumReplica) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    part = _only_partition(request, ctx.api_version)
    if error or part is None:
        return FetchResponse(error_code=error or ErrorCode.INVALID_REQUEST)
    replica_id = request.replica_state.replica_id
    if ctx.api_version < 15:
        replica_id = request.replica_id
    asked = messages.FetchRequest(
        part.current_leader_epoch,
        ReplicaKey(replica_id, part.replica_directory_id),
        part.fetch_offset,
        part.last_fetched_epoch,
        request.max_wait_ms,
        min(part.partition_max_bytes or request.max_bytes, request.max_bytes),
        part.high_watermark,
    )

    def encode(response: messages.Response) -> FetchResponse:
        return _encode(cast(messages.FetchResponse, response), ctx.api_version)

    return role.ask(asked, encode)


def _only_partition(request: FetchRequest, version: int) -> FetchPartition | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    named = topic.topic == METADATA_TOPIC if version < 13 else topic.topic_id == METADATA_TOPIC_ID
    return topic.partitions[0] if named and topic.partitions[0].partition == 0 else None


def _encode(answer: messages.FetchResponse, version: int) -> FetchResponse:
    part = PartitionData(
        partition_index=0,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        records=cast(Records, answer.records),
    )
    if version >= 12:
        part.current_leader = LeaderIdAndEpoch(
            leader_id=answer.leader_id, leader_epoch=answer.epoch
        )
        if answer.diverging is not None:
            part.diverging_epoch = EpochEndOffset(
                epoch=answer.diverging.epoch, end_offset=answer.diverging.offset
            )
        if answer.snapshot is not None:
            part.snapshot_id = SnapshotId(
                end_offset=answer.snapshot.offset, epoch=answer.snapshot.epoch
            )
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[part]
            )
        ],
        node_endpoints=node_endpoints(
            NodeEndpoint, answer.leader_id, answer.leader_endpoint, known=version >= 17
        ),
    )
