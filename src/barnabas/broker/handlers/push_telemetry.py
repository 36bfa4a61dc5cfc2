"""PushTelemetry.

Behaviour: a client's metrics are kept until its next push, and shown by ``barnabas cluster
client-metrics`` (KIP-714). A push under another subscription than the client's present one is
refused, so that the client asks for its subscription first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.push_telemetry_request import PushTelemetryRequest
from barnabas.wire.messages.push_telemetry_response import PushTelemetryResponse
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import HasTelemetry

API = Api(ApiKey.PUSH_TELEMETRY, PushTelemetryRequest, top_level_error(PushTelemetryResponse))


def handle(
    request: PushTelemetryRequest, ctx: RequestContext, broker: HasTelemetry
) -> PushTelemetryResponse:
    broker.telemetry.push(
        Uuid(request.client_instance_id),
        request.subscription_id,
        request.compression_type,
        request.metrics,
        terminating=request.terminating,
        ctx=ctx,
    )
    return PushTelemetryResponse()
