"""EndQuorumEpoch: the leader of an epoch resigned.

Behaviour: a follower starts an election, as in Kafka: the first preferred successor at once, each further
successor after twice the wait of the one before, a voter that is no successor after
`controller.quorum.election.backoff.max.ms`. If the request names no successor, every voter starts one at
once.

Version notes: v0 names successors by id, v1 with their directory ids (KIP-853).
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
from barnabas.wire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from barnabas.wire.messages.end_quorum_epoch_response import (
    EndQuorumEpochResponse,
    NodeEndpoint,
    PartitionData,
    TopicData,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.END_QUORUM_EPOCH,
    EndQuorumEpochRequest,
    top_level_error(EndQuorumEpochResponse),
    "cluster",
    "cluster-action",
)


def handle(request: EndQuorumEpochRequest, ctx: RequestContext, role: RaftNode) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    part = only_partition(request.topics, "topic_name", "partition_index")
    if error or part is None:
        return EndQuorumEpochResponse(error_code=error or ErrorCode.INVALID_REQUEST)
    if part.preferred_candidates:
        successors = tuple(
            ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in part.preferred_candidates
        )
    else:
        successors = tuple(ReplicaKey(node) for node in part.preferred_successors)
    asked = messages.EndEpochRequest(
        part.leader_epoch,
        part.leader_id,
        successors,
        {e.name: Endpoint(e.host, e.port) for e in request.leader_endpoints},
    )

    def encode(response: messages.Response) -> EndQuorumEpochResponse:
        answer = cast(messages.EndEpochResponse, response)
        return EndQuorumEpochResponse(
            topics=about_leader(TopicData, PartitionData, answer),
            node_endpoints=node_endpoints(
                NodeEndpoint, answer.leader_id, answer.leader_endpoint, known=ctx.api_version >= 1
            ),
        )

    return role.ask(asked, encode)
