"""GetTelemetrySubscriptions.

Behaviour: a client learns its instance id, which metrics it shall push, how often, and how large a push may
be (KIP-714). A client that asks again before its interval has passed is refused, unless its subscription
changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.client_telemetry import ACCEPTED_CODECS
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.get_telemetry_subscriptions_request import (
    GetTelemetrySubscriptionsRequest,
)
from barnabas.wire.messages.get_telemetry_subscriptions_response import (
    GetTelemetrySubscriptionsResponse,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import HasTelemetry

API = Api(
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    GetTelemetrySubscriptionsRequest,
    top_level_error(GetTelemetrySubscriptionsResponse),
)


def handle(
    request: GetTelemetrySubscriptionsRequest, ctx: RequestContext, broker: HasTelemetry
) -> GetTelemetrySubscriptionsResponse:
    instance = broker.telemetry.subscription(Uuid(request.client_instance_id), ctx)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=broker.telemetry.telemetry_bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )
