"""UpdateFeatures.

Behaviour: moves finalized feature levels, all or nothing, where every registered node supports them.

Version notes: version 0 knows `allow_downgrade` only; from 2 on the answer has no results per feature.
"""

from __future__ import annotations

from barnabas.controller.features import update_features
from barnabas.controller.runtime import ControllerRuntime
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.update_features_request import UpdateFeaturesRequest
from barnabas.wire.messages.update_features_response import UpdateFeaturesResponse
from barnabas.wire.request import Api, Parked, RequestContext


def error_response(
    request: UpdateFeaturesRequest, code: int, message: str
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=message)


API = Api(ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest, error_response, "cluster", "alter")


def handle(
    request: UpdateFeaturesRequest, ctx: RequestContext, role: ControllerRuntime
) -> UpdateFeaturesResponse | Parked:
    return role.decide(
        API, request, lambda cluster: update_features(cluster, request, ctx.api_version)
    )
