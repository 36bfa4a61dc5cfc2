"""ReadShareGroupStateSummary.

Behaviour: summarizes states of share partitions for their group's coordinator, which tools ask.

Version notes: 1 has the number of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from barnabas.broker.coordinator.share_state_requests import Answers, serve
from barnabas.broker.roles import ShareRole
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages import read_share_group_state_summary_request as asked_for
from barnabas.wire.messages import read_share_group_state_summary_response as answer
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

ANSWERS = Answers(
    answer.ReadShareGroupStateSummaryResponse, answer.ReadStateSummaryResult, answer.PartitionResult
)

API = Api(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    asked_for.ReadShareGroupStateSummaryRequest,
    mirrored_error(
        asked_for.ReadShareGroupStateSummaryRequest, answer.ReadShareGroupStateSummaryResponse
    ),
    "cluster",
    "cluster-action",
)


def handle(
    request: asked_for.ReadShareGroupStateSummaryRequest, ctx: RequestContext, role: ShareRole
) -> Message | Parked:
    return serve(
        request,
        role,
        ANSWERS,
        lambda machine, key, asked, at: machine.summarize(key),
    )
