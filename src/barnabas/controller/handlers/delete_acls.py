"""DeleteAcls.

Behaviour: each filter removes the entries that it names and is answered with them.
SECURITY_DISABLED without ``authorizer.class.name``. Each entry that is removed is an audit event of the log.

Version notes: 2 is flexible, 3 adds the resource type USER.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision
from barnabas.controller.handlers.create_acls import NO_AUTHORIZER
from barnabas.controller.security.acls import delete_acls
from barnabas.security.authorization.acls import Acl
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_acls_request import DeleteAclsRequest
from barnabas.wire.messages.delete_acls_response import DeleteAclsResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.DELETE_ACLS,
    DeleteAclsRequest,
    mirrored_error(DeleteAclsRequest, DeleteAclsResponse),
    "cluster",
    "alter",
)


def handle(
    request: DeleteAclsRequest, ctx: RequestContext, role: QuorumController
) -> DeleteAclsResponse | Parked:
    if role.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)

    def written(decision: Decision[DeleteAclsResponse], offset: int) -> None:
        gone = {
            Acl(*(getattr(entry, field) for field in Acl._fields))
            for result in decision.response.filter_results
            for entry in result.matching_acls
        }
        role.change_audit.log_deleted_acls(sorted(gone), ctx.principal)

    return role.decide(API, request, lambda cluster: delete_acls(cluster, request), written)
