"""DeleteShareGroupOffsets.

Behaviour: a share group without members forgets topics: the share coordinator deletes the states of
all their partitions. Each topic has its own error. UNSUPPORTED_VERSION if ``share.version`` is 0.

Version notes: there is one version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.broker.coordinator.group_coordinator import check_group_id
from barnabas.broker.roles import ShareGroupRole
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
)
from barnabas.wire.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

error_response = top_level_error(DeleteShareGroupOffsetsResponse)

API = Api(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsRequest,
    error_response,
    "group",
    "delete",
)


def handle(
    request: DeleteShareGroupOffsetsRequest, ctx: RequestContext, role: ShareGroupRole
) -> Message | Parked:
    shares = role.shares.open()
    if not shares.is_enabled:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    if code := check_group_id(request.group_id):
        return error_response(request, code, "")
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    if not names:
        return DeleteShareGroupOffsetsResponse()
    parked = Parked()

    def done(
        refusal: KafkaError | None, outcome: Mapping[Uuid, KafkaError | None], others: list[Any]
    ) -> None:
        if refusal is not None:
            parked.complete(error_response(request, refusal.code, refusal.message))
            return
        topics = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=role.groups.cluster.name_of(topic_id) or "",
                topic_id=topic_id,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message or None,
            )
            for topic_id, error in outcome.items()
        ]
        parked.complete(DeleteShareGroupOffsetsResponse(responses=[*others, *topics]))

    shares.delete_offsets(request.group_id, names, done)
    return parked
