"""DescribeAcls, on brokers and controllers.

Behaviour: returns the entries that match a filter, by resource. SECURITY_DISABLED without
``authorizer.class.name``.

Version notes: 2 is flexible, 3 adds the resource type USER.
"""

from __future__ import annotations

from typing import Protocol, cast

from barnabas.controller.security.acls import check_known
from barnabas.security.authorization.acls import AclFilter, matches
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest
from barnabas.wire.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from barnabas.wire.request import Api, RequestContext

API = Api(
    ApiKey.DESCRIBE_ACLS,
    DescribeAclsRequest,
    top_level_error(DescribeAclsResponse),
    "cluster",
    "describe",
)


class AuthorizedRole(Protocol):
    @property
    def authorizer(self) -> Authorizer | None: ...


def handle(
    request: DescribeAclsRequest, ctx: RequestContext, role: AuthorizedRole
) -> DescribeAclsResponse:
    if role.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = request
    check_known(
        [
            (
                wanted.resource_type_filter,
                wanted.pattern_type_filter,
                wanted.operation,
                wanted.permission_type,
            )
        ]
    )
    by_resource: dict[tuple[int, str, int], list[AclDescription]] = {}
    for _, acl in role.authorizer.entries():
        if matches(cast(AclFilter, wanted), acl):
            by_resource.setdefault(acl[:3], []).append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls
            )
            for (kind, name, pattern), acls in by_resource.items()
        ],
    )
