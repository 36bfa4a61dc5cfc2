"""DescribeUserScramCredentials (KIP-554), on brokers' and controllers' listeners.

Behaviour: returns the users with credentials, their mechanisms and iterations, but never a key or
salt. An empty list of users means all.

Version notes: one version.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from barnabas.wire.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from barnabas.wire.request import Api, RequestContext

API = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    top_level_error(DescribeUserScramCredentialsResponse),
    "cluster",
    "describe",
)


def handle(
    request: DescribeUserScramCredentialsRequest, ctx: RequestContext, role: Any
) -> DescribeUserScramCredentialsResponse:
    """`role` is a broker or a controller: either has an image."""
    known: dict[str, list[CredentialInfo]] = {}
    for (mechanism, name), record in sorted(role.image.scram_credentials.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=record.iterations)
        known.setdefault(name, []).append(info)
    asked = [user.name for user in request.users or ()] or sorted(known)
    counts = Counter(asked)
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=[_result(name, counts[name], known) for name in counts]
    )


def _result(
    name: str, count: int, known: dict[str, list[CredentialInfo]]
) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.NONE, None
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif name not in known:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=code,
        error_message=message,
        credential_infos=[] if code else known[name],
    )
