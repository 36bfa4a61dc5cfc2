"""DeleteTopics.

Behaviour: deletes topics by name or by id, each on its own; a topic that is named twice is not
deleted. The whole request is refused if ``delete.topic.enable`` is false (with INVALID_REQUEST
before version 3). Partitions and configurations go with the topic's record.

Version notes: up to 5 names only (`topic_names`); 6 names or ids (KIP-516); 5 may be refused by
THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.topics.delete_topics import delete_topics
from barnabas.security.quotas.mutation_quota import MutationQuota
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

STRICT_SINCE = 5
"""The version that knows THROTTLING_QUOTA_EXCEEDED."""
DISABLED_SINCE = 3
"""The version that knows TOPIC_DELETION_DISABLED."""


def error_response(request: DeleteTopicsRequest, code: int, message: str) -> DeleteTopicsResponse:
    asked = list(request.topics) or [DeleteTopicState(name=n) for n in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message
            )
            for topic in asked
        ]
    )


API = Api(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, error_response, "topic", "delete")


def handle(
    request: DeleteTopicsRequest, ctx: RequestContext, role: QuorumController
) -> DeleteTopicsResponse | Parked:
    def decide(cluster: ControllerContext) -> Decision[DeleteTopicsResponse]:
        if not role.config.controller.delete_topics:
            code = ErrorCode.TOPIC_DELETION_DISABLED
            if ctx.api_version < DISABLED_SINCE:
                code = ErrorCode.INVALID_REQUEST
            raise KafkaError(code, "Topic deletion is disabled: delete.topic.enable is false.")
        return delete_topics(cluster, request, quota)

    quota = MutationQuota(role.quotas, ctx, STRICT_SINCE)
    answer = role.decide(API, request, decide, lambda decision, offset: quota.charge())
    return quota.with_throttle_time(answer)
