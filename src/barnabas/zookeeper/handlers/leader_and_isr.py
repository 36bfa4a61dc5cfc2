"""LeaderAndIsr (Kafka 3.9; only where ZooKeeper coordinates the cluster).

Behaviour: the controller says which partitions this broker leads and follows, in which epoch. Offline
replicas are answered with KAFKA_STORAGE_ERROR. Orders of an older controller, and those for an earlier
registration of this broker, are refused.

Version notes: versions below 2 have no broker epoch, below 5 no topic ids: they are read, and refused
with UNSUPPORTED_VERSION for want of an id.
"""

from __future__ import annotations

from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.kafka39.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.wire.messages.kafka39.leader_and_isr_response import LeaderAndIsrResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.zookeeper.broker.control_requests import ControlRequests

API = Api(
    ApiKey.LEADER_AND_ISR,
    LeaderAndIsrRequest,
    top_level_error(LeaderAndIsrResponse),
    "cluster",
    "cluster-action",
)


def handle(request: LeaderAndIsrRequest, ctx: RequestContext, orders: ControlRequests) -> Parked:
    return orders.handle(request)
