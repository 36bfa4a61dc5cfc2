"""BeginQuorumEpoch: the leader of an epoch says that it is.

Behaviour: a replica that knew no leader of this epoch, or an older epoch, follows it. Refused with
FENCED_LEADER_EPOCH where a newer epoch is known.
Version notes: v1 says which voter is meant and where the leader is (KIP-853).
"""

from __future__ import annotations

from typing import cast

from barnabas.raft.core import messages
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.handlers.answering import (
    about_leader,
    check_cluster,
    node_endpoints,
    only_partition,
)
from barnabas.raft.raft_node import RaftNode
from barnabas.types import Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from barnabas.wire.messages.begin_quorum_epoch_response import (
    BeginQuorumEpochResponse,
    NodeEndpoint,
    PartitionData,
    TopicData,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.BEGIN_QUORUM_EPOCH,
    BeginQuorumEpochRequest,
    top_level_error(BeginQuorumEpochResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: BeginQuorumEpochRequest, ctx: RequestContext, role: RaftNode
) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    part = only_partition(request.topics, "topic_name", "partition_index")
    if error or part is None:
        return BeginQuorumEpochResponse(error_code=error or ErrorCode.INVALID_REQUEST)
    voter = ReplicaKey(request.voter_id, part.voter_directory_id)
    asked = messages.BeginEpochRequest(
        part.leader_epoch,
        part.leader_id,
        voter if voter.id >= 0 else None,
        {e.name: Endpoint(e.host, e.port) for e in request.leader_endpoints},
    )

    def encode(response: messages.Response) -> BeginQuorumEpochResponse:
        answer = cast(messages.BeginEpochResponse, response)
        return BeginQuorumEpochResponse(
            topics=about_leader(TopicData, PartitionData, answer),
            node_endpoints=node_endpoints(
                NodeEndpoint, answer.leader_id, answer.leader_endpoint, known=ctx.api_version >= 1
            ),
        )

    return role.ask(asked, encode)
