"""Registers controllers: incarnation, endpoints, supported features (KIP-919).

Also unregisters controllers that are gone.
"""

from __future__ import annotations

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata import features as levels
from barnabas.metadata.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from barnabas.metadata.records.unregister_controller_record import UnregisterControllerRecord
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.controller_registration_request import ControllerRegistrationRequest
from barnabas.wire.messages.controller_registration_response import ControllerRegistrationResponse
from barnabas.wire.messages.unregister_controller_response import UnregisterControllerResponse


def register_controller(
    cluster: ControllerContext, request: ControllerRegistrationRequest, wall_ms: int
) -> Decision[ControllerRegistrationResponse]:
    """Register a controller; nothing changes if its incarnation is registered. `wall_ms` is the current time.
    Raises UNSUPPORTED_VERSION if the metadata version has no controller registrations, or the controller does
    not support a finalized feature level."""
    image = cluster.image
    if image.metadata_version < levels.CONTROLLER_REGISTRATION_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current metadata.version"
            f" {levels.metadata_version_name(image.metadata_version)} does not support controller"
            " registrations.",
        )
    for feature in request.features:
        level = image.features.get(feature.name, 0)
        if not feature.min_supported_version <= level <= feature.max_supported_version:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the controller does not support finalized version"
                f" {level} of {feature.name}: it supports {feature.min_supported_version} to"
                f" {feature.max_supported_version}.",
            )
    response = ControllerRegistrationResponse(error_message=None)
    known = image.controllers.get(request.controller_id)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for at in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in sorted(request.features, key=lambda f: f.name)
        ],
        registered_ms=wall_ms,
    )
    if known is not None and known.incarnation == request.incarnation_id:
        return Decision(response, reason=f"controller {request.controller_id} is registered")
    return Decision(response, [record], f"controller {request.controller_id} registers")


def unregister_controller(
    cluster: ControllerContext, controller_id: int
) -> Decision[UnregisterControllerResponse]:
    """Remove the registration of a controller that is gone, so that its supported levels no longer
    bind the cluster. Raises UNSUPPORTED_VERSION, CONTROLLER_ID_NOT_REGISTERED, and INVALID_REQUEST
    for the active controller."""
    image = cluster.image
    if controller_id == cluster.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        )
    if image.metadata_version < levels.CONTROLLERS_LEAVE_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current metadata.version"
            f" {levels.metadata_version_name(image.metadata_version)} does not support controller"
            " unregistration.",
        )
    if controller_id not in image.controllers:
        raise KafkaError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {controller_id} is not currently registered.",
        )
    record = UnregisterControllerRecord(controller_id=controller_id)
    response = UnregisterControllerResponse(error_message=None)
    return Decision(response, [record], f"controller {controller_id} is unregistered")
