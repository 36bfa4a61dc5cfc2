"""RemoveRaftVoter: change the voter set by one voter (KIP-853).

Behaviour: the leader only, one change at a time, dynamic quorums only. The answer comes when the new
set is committed; a leader that is removed resigns then.
Version notes: v0 only.
"""

from __future__ import annotations

from typing import cast

from barnabas.raft.core import messages
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.handlers.answering import check_cluster, foreign_cluster
from barnabas.raft.raft_node import RaftNode
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from barnabas.wire.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.REMOVE_RAFT_VOTER,
    RemoveRaftVoterRequest,
    top_level_error(RemoveRaftVoterResponse),
    "cluster",
    "alter",
)


def handle(
    request: RemoveRaftVoterRequest, ctx: RequestContext, role: RaftNode
) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    if error:
        return RemoveRaftVoterResponse(
            error_code=error, error_message=foreign_cluster(request.cluster_id, role)
        )
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    asked = messages.RemoveVoterRequest(voter)

    def encode(response: messages.Response) -> RemoveRaftVoterResponse:
        answer = cast(messages.ChangeVoterResponse, response)
        return RemoveRaftVoterResponse(
            error_code=answer.error, error_message=answer.message or None
        )

    return role.ask(asked, encode)
