"""DescribeCluster on a controller's listener.

Behaviour: returns the controllers with the endpoints that they advertise for this listener, and the
active one (KIP-919). A request for brokers is refused: their own listeners answer it. With our
tagged field ``RefusalsAfter`` the response has this controller's refusals after the one of that
number (-1: all that it remembers), which no record has. With ``IncludeMetrics`` it has this
controller's metrics. Below metadata.version 15 controllers do not register endpoints, and a request
without our fields gets an error.

Version notes: 1 adds the endpoint type, 2 fenced brokers.
"""

from __future__ import annotations

from barnabas.controller.active.metrics import count_then
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.active.refusals import RefusalNote
from barnabas.metadata.features import CONTROLLER_REGISTRATION_SINCE
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import (
    ControllerMetric,
    ControllerRefusal,
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

CONTROLLERS = 2
"""Endpoint type of controllers; 1 is brokers."""
NOT_ASKED = -2
"""``RefusalsAfter`` of clients that do not know the field."""


API = Api(
    ApiKey.DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    top_level_error(DescribeClusterResponse),
    "cluster",
    "describe",
)


def handle(
    request: DescribeClusterRequest, ctx: RequestContext, role: QuorumController
) -> DescribeClusterResponse | Parked:
    told_more = request.refusals_after != NOT_ASKED or request.include_metrics
    if role.image.metadata_version < CONTROLLER_REGISTRATION_SINCE and not told_more:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Direct-to-controller communication is not supported with the current MetadataVersion.",
        )
    if request.endpoint_type != CONTROLLERS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST
            if not ctx.api_version
            else ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == 1
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of"
            f" type {'BROKER' if request.endpoint_type == 1 else request.endpoint_type}",
        )
    nodes = []
    for controller_id in sorted(role.image.controllers):
        at = role.image.controllers[controller_id].listeners.get(ctx.listener)
        if at is not None:
            nodes.append(
                DescribeClusterBroker(
                    broker_id=controller_id, host=at.host, port=at.port, rack=None
                )
            )
    response = DescribeClusterResponse(
        error_message=None,
        endpoint_type=CONTROLLERS,
        cluster_id=role.cluster_id,
        controller_id=role.leader_id,
        brokers=nodes,
        refusals=[
            ControllerRefusal(
                number=note.number, at_ms=note.at_ms, subject=note.subject, code=note.code,
                reason=note.reason,
            )
            for note in _refusals(request, role)
        ],
    )  # fmt: skip
    return _with_metrics(response, role) if request.include_metrics else response


def _with_metrics(response: DescribeClusterResponse, role: QuorumController) -> Parked:
    parked = Parked()

    def answer(counted: dict[str, int]) -> None:
        response.metrics = [
            ControllerMetric(name=name, value=value) for name, value in counted.items()
        ]
        parked.complete(response)

    count_then(role, answer)
    return parked


def _refusals(request: DescribeClusterRequest, role: QuorumController) -> list[RefusalNote]:
    after = request.refusals_after
    return [] if after == NOT_ASKED else role.refusals.after(after)
