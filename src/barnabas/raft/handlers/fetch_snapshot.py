"""FetchSnapshot: a piece of a snapshot, as bytes from a position on.

Behaviour: the leader only; SNAPSHOT_NOT_FOUND where the snapshot was deleted meanwhile (the follower fetches
again and learns the id of the newest), POSITION_OUT_OF_RANGE beyond its end.
Version notes: v1 has the directory id and says where the leader is (KIP-853).
"""

from __future__ import annotations

from typing import cast

from barnabas.raft.core import messages
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.handlers.answering import check_cluster, node_endpoints
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import METADATA_TOPIC, Records
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_snapshot_request import FetchSnapshotRequest
from barnabas.wire.messages.fetch_snapshot_response import (
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.FETCH_SNAPSHOT,
    FetchSnapshotRequest,
    top_level_error(FetchSnapshotResponse),
    "cluster",
    "cluster-action",
)


def handle(request: FetchSnapshotRequest, ctx: RequestContext, role: RaftNode) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    if not error and (len(request.topics) != 1 or len(request.topics[0].partitions) != 1):
        error = ErrorCode.INVALID_REQUEST
    if error:
        return FetchSnapshotResponse(error_code=error)
    topic, part = request.topics[0], request.topics[0].partitions[0]
    if topic.name != METADATA_TOPIC or part.partition != 0:
        unknown = PartitionSnapshot(
            index=part.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        unknown.unaligned_records = b""
        return FetchSnapshotResponse(topics=[TopicSnapshot(name=topic.name, partitions=[unknown])])
    asked = messages.SnapshotRequest(
        part.current_leader_epoch,
        ReplicaKey(request.replica_id, part.replica_directory_id),
        OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        part.position,
        request.max_bytes,
    )

    def encode(response: messages.Response) -> FetchSnapshotResponse:
        return _encode(cast(messages.SnapshotResponse, response), ctx.api_version)

    return role.ask(asked, encode)


def _encode(answer: messages.SnapshotResponse, version: int) -> FetchSnapshotResponse:
    part = PartitionSnapshot(
        index=0,
        error_code=answer.error,
        current_leader=LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
        size=answer.size,
        position=answer.position,
        unaligned_records=cast(Records, answer.data),
    )
    if not answer.error and answer.snapshot is not None:
        part.snapshot_id = SnapshotId(
            end_offset=answer.snapshot.offset, epoch=answer.snapshot.epoch
        )
    return FetchSnapshotResponse(
        topics=[TopicSnapshot(name=METADATA_TOPIC, partitions=[part])],
        node_endpoints=node_endpoints(
            NodeEndpoint, answer.leader_id, answer.leader_endpoint, known=version >= 1
        ),
    )
