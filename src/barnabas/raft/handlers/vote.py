"""Vote: a replica asks to be elected, or (pre-vote) whether it could be.

Behaviour: granted at most once per epoch, to a replica whose log is at least as complete, and durable
before the answer leaves. A voter that hears from a live leader denies a pre-vote; a pre-vote binds no voter.
Version notes: v1 has directory ids, the voter meant, and the leader's endpoint (KIP-853); v2
pre-vote (KIP-996).
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
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.vote_request import VoteRequest
from barnabas.wire.messages.vote_response import (
    NodeEndpoint,
    PartitionData,
    TopicData,
    VoteResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(ApiKey.VOTE, VoteRequest, top_level_error(VoteResponse), "cluster", "cluster-action")


def handle(request: VoteRequest, ctx: RequestContext, role: RaftNode) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    part = only_partition(request.topics, "topic_name", "partition_index")
    if error or part is None:
        return VoteResponse(error_code=error or ErrorCode.INVALID_REQUEST)
    voter = ReplicaKey(request.voter_id, part.voter_directory_id)
    asked = messages.VoteRequest(
        part.replica_epoch,
        ReplicaKey(part.replica_id, part.replica_directory_id),
        voter if voter.id >= 0 else None,
        OffsetAndEpoch(part.last_offset, part.last_offset_epoch),
        part.pre_vote,
    )

    def encode(response: messages.Response) -> VoteResponse:
        answer = cast(messages.VoteResponse, response)
        return VoteResponse(
            topics=about_leader(TopicData, PartitionData, answer, vote_granted=answer.granted),
            node_endpoints=node_endpoints(
                NodeEndpoint, answer.leader_id, answer.leader_endpoint, known=ctx.api_version >= 1
            ),
        )

    return role.ask(asked, encode)
