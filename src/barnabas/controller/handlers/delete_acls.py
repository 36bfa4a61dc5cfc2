"""DeleteAcls.

Behaviour: no authorizer can be configured, so there are no ACLs: each filter is refused with
SECURITY_DISABLED, as Apache Kafka's controller does without ``authorizer.class.name``.

Version notes: 2 is flexible, 3 adds the resource type USER.
"""

from __future__ import annotations

from typing import NoReturn

from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_acls_request import DeleteAclsRequest
from barnabas.wire.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from barnabas.wire.request import Api, RequestContext

NO_AUTHORIZER = "No Authorizer is configured."


def error_response(request: DeleteAclsRequest, code: int, message: str) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=code, error_message=message)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


API = Api(ApiKey.DELETE_ACLS, DeleteAclsRequest, error_response, "cluster", "alter")


def handle(request: DeleteAclsRequest, ctx: RequestContext, role: object) -> NoReturn:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
