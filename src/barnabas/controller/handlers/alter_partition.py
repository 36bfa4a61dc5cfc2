"""AlterPartition.

Behaviour: a leader asks for another ISR or for the end of its recovery; each partition is decided
alone (the decider has every rule). A change that completes a reassignment and moves the leadership
is made, and answered NEW_LEADER_ELECTED.

Version notes: 2 names topics by id, 3 the ISR's members with their broker epochs (KIP-903).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.partitions.alter_partition import alter_partition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.alter_partition_request import AlterPartitionRequest
from barnabas.wire.messages.alter_partition_response import AlterPartitionResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.ALTER_PARTITION,
    AlterPartitionRequest,
    top_level_error(AlterPartitionResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: AlterPartitionRequest, ctx: RequestContext, role: QuorumController
) -> AlterPartitionResponse | Parked:
    return role.decide(
        API,
        request,
        lambda cluster: alter_partition(
            cluster,
            request,
            role.refusals.add,
            role.isr_backoff.why_held,
            role.isr_backoff.fell,
        ),
    )
