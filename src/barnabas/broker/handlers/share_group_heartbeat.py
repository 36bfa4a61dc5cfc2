"""ShareGroupHeartbeat.

Behaviour: the only request that a member of a share group sends to its group's coordinator
(KIP-932). It joins with epoch 0 and an id of its own, keeps its session with each heartbeat, and
leaves with epoch -1. The answer has its assignment if that changed. UNSUPPORTED_VERSION if
``share.version`` is 0.

Version notes: there is one version.
"""

from __future__ import annotations

from barnabas.broker.coordinator.group_coordinator import caller_of
from barnabas.broker.roles import ShareGroupRole
from barnabas.group.share.heartbeat import check_request
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

error_response = top_level_error(ShareGroupHeartbeatResponse)

API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest, error_response, "group", "read")


def handle(
    request: ShareGroupHeartbeatRequest, ctx: RequestContext, role: ShareGroupRole
) -> Message | Parked | None:
    shares = role.shares.open()
    if not shares.is_enabled:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    try:
        check_request(request)
    except KafkaError as error:
        return error_response(request, error.code, error.message)
    parked = Parked()

    def reply(result: Message | KafkaError) -> None:
        if isinstance(result, KafkaError):
            result = error_response(request, result.code, result.message)
        parked.complete(result)

    shares.beat(request, caller_of(ctx, role), reply)
    return parked
