"""CreatePartitions.

Behaviour: grows topics, each on its own; new partitions are placed or assigned by hand.

Version notes: 3 may be refused by THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.topics import create_partitions
from barnabas.security.quotas.mutation_quota import MutationQuota
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages.create_partitions_request import CreatePartitionsRequest
from barnabas.wire.messages.create_partitions_response import (
    CreatePartitionsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

STRICT_SINCE = 3
"""The version that knows THROTTLING_QUOTA_EXCEEDED."""
API = Api(
    ApiKey.CREATE_PARTITIONS,
    CreatePartitionsRequest,
    mirrored_error(CreatePartitionsRequest, CreatePartitionsResponse),
    "topic",
    "alter",
)


def handle(
    request: CreatePartitionsRequest, ctx: RequestContext, role: QuorumController
) -> CreatePartitionsResponse | Parked:
    quota = MutationQuota(role.quotas, ctx, STRICT_SINCE)
    answer = role.decide(
        API,
        request,
        lambda cluster: create_partitions.create_partitions(
            cluster, request, role.placement_rng, quota
        ),
        lambda decision, offset: quota.charge(),
    )
    return quota.with_throttle_time(answer)
