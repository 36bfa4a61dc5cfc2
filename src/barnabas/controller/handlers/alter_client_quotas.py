"""AlterClientQuotas (KIP-546, KIP-612).

Behaviour: sets and removes quotas of users, client ids and IP addresses, as records that every node replays.
Each entity has its own error. With `validate_only` the answer is the same and nothing is written.

Version notes: 1 is flexible.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security import client_quotas
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest
from barnabas.wire.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)
from barnabas.wire.request import Api, Parked, RequestContext


def error_response(
    request: AlterClientQuotasRequest, code: int, message: str
) -> AlterClientQuotasResponse:
    entries = [
        EntryData(
            error_code=code,
            error_message=message or None,
            entity=[
                EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                for part in entry.entity
            ],
        )
        for entry in request.entries
    ]
    return AlterClientQuotasResponse(entries=entries)


API = Api(
    ApiKey.ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    error_response,
    "cluster",
    "alter-configs",
)


def handle(
    request: AlterClientQuotasRequest, ctx: RequestContext, role: QuorumController
) -> AlterClientQuotasResponse | Parked:
    return role.decide(
        API,
        request,
        lambda cluster: client_quotas.alter(cluster, request),
        role.change_audit.of(ctx),
    )
