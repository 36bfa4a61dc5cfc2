"""AssignReplicasToDirs.

Behaviour: records in which log directory a broker holds its replicas (KIP-858).

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.partitions.assign_directories import assign_replicas
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from barnabas.wire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    AssignReplicasToDirsRequest,
    top_level_error(AssignReplicasToDirsResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: AssignReplicasToDirsRequest, ctx: RequestContext, role: QuorumController
) -> AssignReplicasToDirsResponse | Parked:
    return role.decide(
        API, request, lambda cluster: assign_replicas(cluster, request, role.refusals.add)
    )
