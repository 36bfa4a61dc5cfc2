"""ControlledShutdown (Kafka 3.9; only where ZooKeeper coordinates the cluster).

Behaviour: the controller moves the broker's leaderships to other brokers before it stops. The answer names
the partitions that it still leads; the broker asks again until there are none.

Version notes: version 2 has the broker epoch.

Source: Kafka's ``KafkaController.doControlledShutdown``.
"""

from __future__ import annotations

from barnabas.controller.broker_epochs import check_epoch
from barnabas.controller.brokers.broker_heartbeat import heartbeat
from barnabas.controller.brokers.broker_sessions import BrokerSessions
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.kafka39.controlled_shutdown_request import ControlledShutdownRequest
from barnabas.wire.messages.kafka39.controlled_shutdown_response import (
    ControlledShutdownResponse,
    RemainingPartition,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.zookeeper.controller.zookeeper_controller import ZookeeperController

API = Api(
    ApiKey.CONTROLLED_SHUTDOWN,
    ControlledShutdownRequest,
    top_level_error(ControlledShutdownResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: ControlledShutdownRequest, ctx: RequestContext, role: ZookeeperController
) -> ControlledShutdownResponse | Parked:
    controller = role.decider
    controller.require_active()
    answer = controller.decide(
        API, request, lambda cluster: hand_over(cluster, request, controller.sessions)
    )
    role.on_leaving(request.broker_id)
    return answer


def hand_over(
    cluster: ControllerContext, request: ControlledShutdownRequest, sessions: BrokerSessions
) -> Decision[ControlledShutdownResponse]:
    """Decide a controlled shutdown. Raises BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH."""
    broker = request.broker_id
    known = cluster.image.brokers.get(broker)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} is not registered")
    if request.broker_epoch >= 0:
        check_epoch(cluster, broker, request.broker_epoch)
    response = ControlledShutdownResponse(remaining_partitions=_led(cluster, broker))
    if known.fenced or known.in_controlled_shutdown:
        return Decision(response)
    wish = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=known.epoch, want_shut_down=True)
    decided = heartbeat(cluster, wish, sessions)
    return Decision(response, decided.records, decided.reason, decided.work)


def _led(cluster: ControllerContext, broker: int) -> list[RemainingPartition]:
    return [
        RemainingPartition(topic_name=topic.name, partition_index=index)
        for topic, index in cluster.image.partitions_of(broker)
        if topic.leader[index] == broker
    ]
