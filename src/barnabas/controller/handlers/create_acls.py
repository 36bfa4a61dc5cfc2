"""CreateAcls.

Behaviour: no authorizer can be configured, so there are no ACLs: each of them is refused with
SECURITY_DISABLED, as Apache Kafka's controller does without ``authorizer.class.name``.

Version notes: 2 is flexible, 3 adds the resource type USER.
"""

from __future__ import annotations

from typing import NoReturn

from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls_request import CreateAclsRequest
from barnabas.wire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from barnabas.wire.request import Api, RequestContext

NO_AUTHORIZER = "No Authorizer is configured."


def error_response(request: CreateAclsRequest, code: int, message: str) -> CreateAclsResponse:
    result = AclCreationResult(error_code=code, error_message=message)
    return CreateAclsResponse(results=[result] * len(request.creations))


API = Api(ApiKey.CREATE_ACLS, CreateAclsRequest, error_response, "cluster", "alter")


def handle(request: CreateAclsRequest, ctx: RequestContext, role: object) -> NoReturn:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
