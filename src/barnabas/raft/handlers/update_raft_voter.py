"""UpdateRaftVoter: a voter tells its endpoints and the levels of kraft.version it supports (KIP-853).

Behaviour: the leader of the named epoch only. In a dynamic quorum what differs is appended as a new voter
set, and answered before that is committed; in a static one it is remembered, so that the quorum can
become dynamic.
Version notes: v0 only.
"""

from __future__ import annotations

from typing import cast

from barnabas.raft.core import messages
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.handlers.answering import check_cluster
from barnabas.raft.raft_node import RaftNode
from barnabas.types import Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from barnabas.wire.messages.update_raft_voter_response import (
    CurrentLeader,
    UpdateRaftVoterResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.UPDATE_RAFT_VOTER,
    UpdateRaftVoterRequest,
    top_level_error(UpdateRaftVoterResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: UpdateRaftVoterRequest, ctx: RequestContext, role: RaftNode
) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    if error:
        return UpdateRaftVoterResponse(error_code=error)
    feature = request.k_raft_version_feature
    asked = messages.UpdateVoterRequest(
        request.current_leader_epoch,
        ReplicaKey(request.voter_id, request.voter_directory_id),
        {e.name: Endpoint(e.host, e.port) for e in request.listeners},
        (feature.min_supported_version, feature.max_supported_version),
    )

    def encode(response: messages.Response) -> UpdateRaftVoterResponse:
        answer = cast(messages.ChangeVoterResponse, response)
        at = answer.leader_endpoint
        return UpdateRaftVoterResponse(
            error_code=answer.error,
            current_leader=CurrentLeader(
                leader_id=answer.leader_id,
                leader_epoch=answer.epoch,
                host=at.host if at else "",
                port=at.port if at else 0,
            ),
        )

    return role.ask(asked, encode)
