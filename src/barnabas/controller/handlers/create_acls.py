"""CreateAcls.

Behaviour: each entry has its own error. Valid entries are written together; an entry that exists already is
answered as created. SECURITY_DISABLED without ``authorizer.class.name``. Each entry that is
written is an audit event of the log.

Version notes: 2 is flexible, 3 adds the resource type USER.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.security.acls import create_acls
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls_request import CreateAclsRequest
from barnabas.wire.messages.create_acls_response import CreateAclsResponse
from barnabas.wire.request import Api, Parked, RequestContext

NO_AUTHORIZER = "No Authorizer is configured."


API = Api(
    ApiKey.CREATE_ACLS,
    CreateAclsRequest,
    mirrored_error(CreateAclsRequest, CreateAclsResponse),
    "cluster",
    "alter",
)


def handle(
    request: CreateAclsRequest, ctx: RequestContext, role: QuorumController
) -> CreateAclsResponse | Parked:
    if role.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    rng = role.acl_rng
    return role.decide(
        API,
        request,
        lambda cluster: create_acls(cluster, request, lambda: Uuid(rng.randbytes(16))),
        role.change_audit.of(ctx),
    )
