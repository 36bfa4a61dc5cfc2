"""ElectLeaders.

Behaviour: holds a preferred or an unclean election for the partitions asked, or for all; each
partition is answered with what was done or why not (KIP-460). Where several replicas could lead
uncleanly they are asked first, and the one that is furthest ahead leads.

Version notes: version 0 is always preferred.
"""

from __future__ import annotations

from barnabas.controller.designated import elect_leaders, undecided
from barnabas.controller.recovery import Inquiry
from barnabas.controller.runtime import ControllerRuntime
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest
from barnabas.wire.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message


def error_response(request: ElectLeadersRequest, code: int, message: str) -> ElectLeadersResponse:
    """Version 0 has no code for the whole, so each partition carries it as well."""
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


API = Api(ApiKey.ELECT_LEADERS, ElectLeadersRequest, error_response, "cluster", "alter")


def handle(
    request: ElectLeadersRequest, ctx: RequestContext, role: ControllerRuntime
) -> ElectLeadersResponse | Parked:
    role.require_active()
    keys = undecided(role.cluster, request)
    if not keys:
        return role.decide(API, request, lambda cluster: elect_leaders(cluster, request))
    parked = Parked()

    def answer(response: Message | None) -> None:
        parked.complete(response)

    def surveyed(found: dict[int, Inquiry]) -> None:
        answers = {key: inquiry.answers for key, inquiry in found.items()}
        try:
            result = role.decide(
                API, request, lambda cluster: elect_leaders(cluster, request, answers)
            )
        except KafkaError as error:
            parked.complete(error_response(request, error.code, error.message))
            return
        if isinstance(result, Parked):
            result.attach(answer)
        else:
            answer(result)

    role.recovery.survey(keys, surveyed)
    return parked
