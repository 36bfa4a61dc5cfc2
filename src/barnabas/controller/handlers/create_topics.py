"""CreateTopics.

Behaviour: names, configurations, policies and placement are checked per topic; the topics that pass
are created together. `validate_only` gives the same answer and writes nothing. The answer comes
once the topics are committed.

Version notes: 5 returns configurations, partitions and replication factor (KIP-525); 7 the topic
id (KIP-516). 6 may be refused by THROTTLING_QUOTA_EXCEEDED (KIP-599). `num_partitions` and
`replication_factor` may be -1 (the default) from version 4 on.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.topics import create_topics
from barnabas.security.quotas.mutation_quota import MutationQuota
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages.create_topics_request import CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import (
    CreateTopicsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

STRICT_SINCE = 6
"""The version that knows THROTTLING_QUOTA_EXCEEDED."""
API = Api(
    ApiKey.CREATE_TOPICS,
    CreateTopicsRequest,
    mirrored_error(
        CreateTopicsRequest, CreateTopicsResponse, num_partitions=-1, replication_factor=-1
    ),
    "topic",
    "create",
)


def handle(
    request: CreateTopicsRequest, ctx: RequestContext, role: QuorumController
) -> CreateTopicsResponse | Parked:
    quota = MutationQuota(role.quotas, ctx, STRICT_SINCE)
    answer = role.decide(
        API,
        request,
        lambda cluster: create_topics.create_topics(
            cluster, request, role.placement_rng, quota=quota
        ),
        lambda decision, offset: quota.charge(),
    )
    return quota.with_throttle_time(answer)
