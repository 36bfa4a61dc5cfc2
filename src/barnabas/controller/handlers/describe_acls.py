"""DescribeAcls.

Behaviour: no authorizer can be configured, so there are no ACLs: each filter is refused with
SECURITY_DISABLED, as Apache Kafka's node does without ``authorizer.class.name``.

Version notes: 2 is flexible, 3 adds the resource type USER.
"""

from __future__ import annotations

from typing import NoReturn

from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest
from barnabas.wire.messages.describe_acls_response import DescribeAclsResponse
from barnabas.wire.request import Api, RequestContext, top_level_error

API = Api(
    ApiKey.DESCRIBE_ACLS,
    DescribeAclsRequest,
    top_level_error(DescribeAclsResponse),
    "cluster",
    "describe",
)


def handle(request: DescribeAclsRequest, ctx: RequestContext, role: object) -> NoReturn:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
