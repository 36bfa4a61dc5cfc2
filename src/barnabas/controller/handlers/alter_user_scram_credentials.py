"""AlterUserScramCredentials (KIP-554).

Behaviour: sets and removes SCRAM credentials, as records that every node replays. Each user has its own
error. The password itself is never sent: the client salts it.

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security import scram_credentials
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
)
from barnabas.wire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from barnabas.wire.request import Api, Parked, RequestContext


def error_response(
    request: AlterUserScramCredentialsRequest, code: int, message: str
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(item.name for item in request.deletions)
    names |= dict.fromkeys(item.name for item in request.upsertions)
    results = [
        AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
        for name in names
    ]
    return AlterUserScramCredentialsResponse(results=results)


API = Api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    error_response,
    "cluster",
    "alter",
)


def handle(
    request: AlterUserScramCredentialsRequest, ctx: RequestContext, role: QuorumController
) -> AlterUserScramCredentialsResponse | Parked:
    return role.decide(
        API,
        request,
        lambda cluster: scram_credentials.alter(cluster, request),
        role.change_audit.of(ctx),
    )
