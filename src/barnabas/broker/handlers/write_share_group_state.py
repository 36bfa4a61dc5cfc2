"""WriteShareGroupState.

Behaviour: writes the acknowledgements of a share partition for its leader.

Version notes: 1 has the number of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from barnabas.broker.coordinator.share_state_requests import Answers, serve
from barnabas.broker.roles import ShareRole
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages import write_share_group_state_request as asked_for
from barnabas.wire.messages import write_share_group_state_response as answer
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

ANSWERS = Answers(
    answer.WriteShareGroupStateResponse, answer.WriteStateResult, answer.PartitionResult
)

API = Api(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    asked_for.WriteShareGroupStateRequest,
    mirrored_error(asked_for.WriteShareGroupStateRequest, answer.WriteShareGroupStateResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: asked_for.WriteShareGroupStateRequest, ctx: RequestContext, role: ShareRole
) -> Message | Parked:
    return serve(
        request,
        role,
        ANSWERS,
        lambda machine, key, asked, at: machine.write(key, asked, at),
    )
