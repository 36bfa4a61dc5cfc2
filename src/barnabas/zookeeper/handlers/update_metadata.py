"""UpdateMetadata (Kafka 3.9; only where ZooKeeper coordinates the cluster).

Behaviour: the controller says which brokers live and what every partition is: what clients see in Metadata.
Orders of an older controller, and those for an earlier registration of this broker, are refused.

Version notes: versions below 7 have no topic ids.
"""

from __future__ import annotations

from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.kafka39.update_metadata_request import UpdateMetadataRequest
from barnabas.wire.messages.kafka39.update_metadata_response import UpdateMetadataResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.zookeeper.broker.control_requests import ControlRequests

API = Api(
    ApiKey.UPDATE_METADATA,
    UpdateMetadataRequest,
    top_level_error(UpdateMetadataResponse),
    "cluster",
    "cluster-action",
)


def handle(request: UpdateMetadataRequest, ctx: RequestContext, orders: ControlRequests) -> Parked:
    return orders.handle(request)
