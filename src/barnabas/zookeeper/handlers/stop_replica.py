"""StopReplica (Kafka 3.9; only where ZooKeeper coordinates the cluster).

Behaviour: the controller says which replicas this broker has no longer. The answer waits until they are
gone. Orders of an older controller, and those for an earlier registration of this broker, are refused.

Version notes: version 3 has a leader epoch per partition (KIP-570).
"""

from __future__ import annotations

from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.kafka39.stop_replica_request import StopReplicaRequest
from barnabas.wire.messages.kafka39.stop_replica_response import StopReplicaResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.zookeeper.broker.control_requests import ControlRequests

API = Api(
    ApiKey.STOP_REPLICA,
    StopReplicaRequest,
    top_level_error(StopReplicaResponse),
    "cluster",
    "cluster-action",
)


def handle(request: StopReplicaRequest, ctx: RequestContext, orders: ControlRequests) -> Parked:
    return orders.handle(request)
