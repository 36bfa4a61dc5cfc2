"""AlterShareGroupOffsets.

Behaviour: sets the start offsets of a share group without members: the share coordinator begins a
new state for each partition at the requested offset. The answer follows when all states are
written. UNSUPPORTED_VERSION if ``share.version`` is 0.

Version notes: there is one version.
"""

from __future__ import annotations

from barnabas.broker.coordinator.group_coordinator import check_group_id
from barnabas.broker.roles import ShareGroupRole
from barnabas.broker.share.share_groups import Errors
from barnabas.share.key import SharePartitionKey
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from barnabas.wire.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

error_response = top_level_error(AlterShareGroupOffsetsResponse)

API = Api(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequest,
    error_response,
    "group",
    "read",
)


def handle(
    request: AlterShareGroupOffsetsRequest, ctx: RequestContext, role: ShareGroupRole
) -> Message | Parked:
    shares = role.shares.open()
    if not shares.is_enabled:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    if code := check_group_id(request.group_id):
        return error_response(request, code, "")
    if not request.topics:
        return AlterShareGroupOffsetsResponse()
    parked = Parked()

    def reply(result: Message | KafkaError, errors: Errors) -> None:
        if isinstance(result, KafkaError):
            parked.complete(error_response(request, result.code, result.message))
            return
        assert isinstance(result, AlterShareGroupOffsetsResponse)
        for topic in result.responses:
            for part in topic.partitions:
                key = SharePartitionKey(request.group_id, topic.topic_id, part.partition_index)
                error = errors.get(key)
                if error is not None and not part.error_code:
                    part.error_code, part.error_message = error.code, error.message or None
        parked.complete(result)

    shares.alter(request, reply)
    return parked
