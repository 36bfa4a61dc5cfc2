"""DeleteShareGroupState.

Behaviour: deletes states of share partitions, for their group's coordinator.

Version notes: there is one version.
"""

from __future__ import annotations

from barnabas.broker.coordinator.share_state_requests import Answers, serve
from barnabas.broker.roles import ShareRole
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages import delete_share_group_state_request as asked_for
from barnabas.wire.messages import delete_share_group_state_response as answer
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

ANSWERS = Answers(
    answer.DeleteShareGroupStateResponse, answer.DeleteStateResult, answer.PartitionResult
)

API = Api(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    asked_for.DeleteShareGroupStateRequest,
    mirrored_error(asked_for.DeleteShareGroupStateRequest, answer.DeleteShareGroupStateResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: asked_for.DeleteShareGroupStateRequest, ctx: RequestContext, role: ShareRole
) -> Message | Parked:
    return serve(
        request,
        role,
        ANSWERS,
        lambda machine, key, asked, at: machine.delete(key),
    )
