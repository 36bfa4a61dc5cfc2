"""ReadShareGroupState.

Behaviour: a leader takes over the states of share partitions, and fences earlier leaders.

Version notes: there is one version.
"""

from __future__ import annotations

from barnabas.broker.coordinator.share_state_requests import Answers, serve
from barnabas.broker.roles import ShareRole
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages import read_share_group_state_request as asked_for
from barnabas.wire.messages import read_share_group_state_response as answer
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

ANSWERS = Answers(
    answer.ReadShareGroupStateResponse, answer.ReadStateResult, answer.PartitionResult
)

API = Api(
    ApiKey.READ_SHARE_GROUP_STATE,
    asked_for.ReadShareGroupStateRequest,
    mirrored_error(asked_for.ReadShareGroupStateRequest, answer.ReadShareGroupStateResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: asked_for.ReadShareGroupStateRequest, ctx: RequestContext, role: ShareRole
) -> Message | Parked:
    return serve(
        request,
        role,
        ANSWERS,
        lambda machine, key, asked, at: machine.read(key, asked.leader_epoch, at),
    )
