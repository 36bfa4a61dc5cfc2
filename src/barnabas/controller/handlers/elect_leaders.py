"""ElectLeaders.

Behaviour: holds a preferred or an unclean election for the named partitions, or for all. Each
partition's answer says what was done, or why nothing was (KIP-460). If several replicas could lead
uncleanly, they are asked first, and the one that is furthest ahead leads.

Version notes: version 0 is always preferred.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.active.replica_survey import Answers, decide_after_survey
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.elect_leaders import elect_leaders, undecided
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest
from barnabas.wire.messages.elect_leaders_response import (
    ElectLeadersResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.ELECT_LEADERS,
    ElectLeadersRequest,
    mirrored_error(ElectLeadersRequest, ElectLeadersResponse),
    "cluster",
    "alter",
)


def handle(
    request: ElectLeadersRequest, ctx: RequestContext, role: QuorumController
) -> ElectLeadersResponse | Parked:
    role.require_active()

    def decide(cluster: ControllerContext, answers: Answers) -> Decision[ElectLeadersResponse]:
        reported = {key: inquiry.answers for key, inquiry in answers.items()}
        return elect_leaders(cluster, request, reported)

    return decide_after_survey(role, API, request, undecided(role.cluster, request), decide)
