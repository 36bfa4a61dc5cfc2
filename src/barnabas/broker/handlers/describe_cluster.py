"""DescribeCluster on a broker's listener.

Behaviour: returns the live brokers on the client's listener, and fenced ones if the client wants
them. A request for controllers is refused: their own listeners answer it. Tagged fields of ours ask
for the metrics that clients pushed to this broker (KIP-714), and for the broker's own counts
(:mod:`barnabas.broker.metrics`).

Version notes: 1 adds the endpoint type, 2 fenced brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.broker.cluster_view import CLUSTER_OPERATIONS, NOT_ASKED, ClusterView
from barnabas.broker.cooperative_jobs import CONTINUES, StepResult
from barnabas.broker.metrics import Metrics, count_steps
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import (
    ControllerMetric,
    DescribeClusterBroker,
    DescribeClusterResponse,
    PushedMetrics,
)
from barnabas.wire.request import Api, Parked, RequestContext, Working

if TYPE_CHECKING:
    from barnabas.broker.roles import DescribeClusterRole

BROKERS = 1
CONTROLLERS = 2
API = Api(
    ApiKey.DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    top_level_error(DescribeClusterResponse),
    "cluster",
    "describe",
)


def handle(
    request: DescribeClusterRequest, ctx: RequestContext, broker: DescribeClusterRole
) -> DescribeClusterResponse | Parked:
    if request.endpoint_type != BROKERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLERS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type"
            f" {'CONTROLLER' if request.endpoint_type == CONTROLLERS else request.endpoint_type}",
        )
    view = ClusterView(broker.image, ctx.listener)
    response = DescribeClusterResponse(
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_for_clients(view),
        brokers=[
            DescribeClusterBroker(
                broker_id=known.id, host=at.host, port=at.port, rack=known.rack,
                is_fenced=known.fenced,
            )
            for known, at in view.brokers()
            if request.include_fenced_brokers or not known.fenced
        ],
        client_metrics=_client_metrics(broker) if request.include_client_metrics else (),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )  # fmt: skip
    if not request.include_metrics:
        return response
    steps = _add_metrics(response, broker)
    return broker.slices.answer(steps, at_once=False, parked=Working(holds=False))


def _add_metrics(
    response: DescribeClusterResponse, broker: DescribeClusterRole
) -> Iterator[DescribeClusterResponse | StepResult]:
    counted: Metrics = {}
    for _ in count_steps(broker, counted.update):
        yield CONTINUES
    response.metrics = [ControllerMetric(name=name, value=counted[name]) for name in counted]
    yield response


def _client_metrics(broker: DescribeClusterRole) -> list[PushedMetrics]:
    return [
        PushedMetrics(
            client_instance_id=instance.id,
            client_id=instance.labels["client_id"],
            software=f"{instance.labels['client_software_name']}"
            f" {instance.labels['client_software_version']}".strip(),
            address=f"{instance.labels['client_source_address']}"
            f":{instance.labels['client_source_port']}",
            at_ms=instance.pushed_at_ms,
            push_interval_ms=instance.interval_ms,
            terminating=instance.terminating,
            metrics=bytes(instance.pushed),
        )
        for instance in broker.telemetry.pushes()
    ]
