"""UpdateFeatures.

Behaviour: moves finalized feature levels, all or none, if every registered node supports them. The
quorum raises kraft.version, as the last step.

Version notes: version 0 knows `allow_downgrade` only; from 2 on the answer has no results per feature.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.audit import with_requester
from barnabas.controller.configs.update_features import (
    check_kraft_version,
    results,
    update_features,
)
from barnabas.metadata.features import KRAFT_VERSION
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.update_features_request import UpdateFeaturesRequest
from barnabas.wire.messages.update_features_response import UpdateFeaturesResponse
from barnabas.wire.request import Api, Parked, RequestContext, then
from barnabas.wire.schema import Message

API = Api(
    ApiKey.UPDATE_FEATURES,
    UpdateFeaturesRequest,
    top_level_error(UpdateFeaturesResponse),
    "cluster",
    "alter",
)


def handle(
    request: UpdateFeaturesRequest, ctx: RequestContext, role: QuorumController
) -> Message | Parked:
    role.require_active()
    quorums = [u for u in request.feature_updates if u.feature == KRAFT_VERSION]
    others = [u for u in request.feature_updates if u.feature != KRAFT_VERSION]
    if quorums:
        check_kraft_version(role.cluster, quorums[-1])
    if not quorums:
        return _decide(request, ctx, role)
    if not others:
        return _upgrade_quorum(request, ctx, quorums[-1].max_version_level, role)
    rest = UpdateFeaturesRequest(
        timeout_ms=request.timeout_ms, feature_updates=others, validate_only=request.validate_only
    )
    return then(
        _decide(rest, ctx, role),
        lambda answer: (
            answer
            if getattr(answer, "error_code", 0)
            else _upgrade_quorum(request, ctx, quorums[-1].max_version_level, role)
        ),
    )


def _decide(
    request: UpdateFeaturesRequest, ctx: RequestContext, role: QuorumController
) -> UpdateFeaturesResponse | Parked:
    return role.decide(
        API,
        request,
        lambda cluster: with_requester(update_features(cluster, request, ctx.api_version), ctx),
        lambda decision, offset: (
            role.registrar.on_activation()
        ),  # the new level may have registrations
    )


def _upgrade_quorum(
    request: UpdateFeaturesRequest, ctx: RequestContext, level: int, role: QuorumController
) -> Message | Parked:
    return role.quorum.upgrade_kraft_version(
        level,
        lambda said: UpdateFeaturesResponse(
            error_code=said.error,
            error_message=said.message or None,
            results=() if said.error else results(request, ctx.api_version),
        ),
        validate_only=request.validate_only,
    )
