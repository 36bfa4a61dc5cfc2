"""AllocateProducerIds.

Behaviour: allocates the next block of a thousand producer ids, and answers when that is committed
(KIP-730).

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.configs.producer_ids import allocate
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.ALLOCATE_PRODUCER_IDS,
    AllocateProducerIdsRequest,
    top_level_error(AllocateProducerIdsResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: AllocateProducerIdsRequest, ctx: RequestContext, role: QuorumController
) -> AllocateProducerIdsResponse | Parked:
    return role.decide(API, request, lambda cluster: allocate(cluster, request))
