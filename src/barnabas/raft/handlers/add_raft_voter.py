"""AddRaftVoter: change the voter set by one voter (KIP-853).

Behaviour: the leader only, one change at a time, dynamic quorums only. The new voter is asked for its
features and must have caught up within `timeout_ms`; the answer comes when the new set is committed.
Version notes: v1 can ask for an answer as soon as the set is appended (auto-join); who does is refused at
once where it has not caught up.
"""

from __future__ import annotations

from typing import cast

from barnabas.raft.core import messages
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.handlers.answering import check_cluster, foreign_cluster
from barnabas.raft.raft_node import RaftNode
from barnabas.types import Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.add_raft_voter_request import AddRaftVoterRequest
from barnabas.wire.messages.add_raft_voter_response import AddRaftVoterResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.ADD_RAFT_VOTER,
    AddRaftVoterRequest,
    top_level_error(AddRaftVoterResponse),
    "cluster",
    "alter",
)


def handle(request: AddRaftVoterRequest, ctx: RequestContext, role: RaftNode) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    if error:
        return AddRaftVoterResponse(
            error_code=error, error_message=foreign_cluster(request.cluster_id, role)
        )
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    asked = messages.AddVoterRequest(
        voter,
        {e.name: Endpoint(e.host, e.port) for e in request.listeners},
        request.timeout_ms,
        request.ack_when_committed,
    )

    def encode(response: messages.Response) -> AddRaftVoterResponse:
        answer = cast(messages.ChangeVoterResponse, response)
        return AddRaftVoterResponse(error_code=answer.error, error_message=answer.message or None)

    return role.ask(asked, encode)
