"""CreateAcls.

Behaviour: each entry has its own error. Valid entries are written together; an entry that exists already is
answered as created. SECURITY_DISABLED without ``authorizer.class.name``. Each written entry is logged as
``acl.created``.

Version notes: 2 is flexible, 3 adds the resource type USER.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision
from barnabas.controller.security.acls import create_acls
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.acls import acl_of
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls_request import CreateAclsRequest
from barnabas.wire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from barnabas.wire.request import Api, Parked, RequestContext

NO_AUTHORIZER = "No Authorizer is configured."


def error_response(request: CreateAclsRequest, code: int, message: str) -> CreateAclsResponse:
    result = AclCreationResult(error_code=code, error_message=message)
    return CreateAclsResponse(results=[result] * len(request.creations))


API = Api(ApiKey.CREATE_ACLS, CreateAclsRequest, error_response, "cluster", "alter")


def handle(
    request: CreateAclsRequest, ctx: RequestContext, role: QuorumController
) -> CreateAclsResponse | Parked:
    if role.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    rng = role.acl_rng

    def written(decision: Decision[CreateAclsResponse], offset: int) -> None:
        for record in decision.records:
            assert isinstance(record, AccessControlEntryRecord)
            role.ports.log("info", "acl.created", entry=str(acl_of(record)), by=ctx.principal)

    return role.decide(
        API,
        request,
        lambda cluster: create_acls(cluster, request, lambda: Uuid(rng.randbytes(16))),
        written,
    )
