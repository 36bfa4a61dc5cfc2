"""Envelope.

Behaviour: serves a request that a broker forwards as if the client had sent it here, with the
principal that the broker names (KIP-590). A controller that is not active answers NOT_CONTROLLER in
the envelope.

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.wire.api_table import ApiKey
from barnabas.wire.envelope import open_envelope
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.envelope_request import EnvelopeRequest
from barnabas.wire.messages.envelope_response import EnvelopeResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.ENVELOPE, EnvelopeRequest, top_level_error(EnvelopeResponse), "cluster", "cluster-action"
)


def handle(
    request: EnvelopeRequest, ctx: RequestContext, role: QuorumController
) -> EnvelopeResponse | Parked:
    if not role.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)

    def on_fault(inner: RequestContext, error: BaseException) -> None:
        role.ports.log("error", "request.forwarded_failed", request=repr(inner), error=repr(error))

    return open_envelope(role.forwarded_apis, request, ctx, on_fault)
