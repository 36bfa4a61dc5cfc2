"""Decisions that first need the log ends of some replicas: ask the replicas, then decide, then
answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.log_ends import LogEndQuery
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Api, Parked
from barnabas.wire.schema import Message

M = TypeVar("M", bound=Message)
Answers = Mapping[int, LogEndQuery]
"""The answers by partition key. It lacks the partitions about which no replica was asked."""


def decide_after_survey(
    role: QuorumController,
    api: Api,
    request: Message,
    keys: list[int],
    decider: Callable[[ControllerContext, Answers], Decision[M]],
) -> M | Parked:
    """Call `role.decide` when the live replicas of `keys` have answered with their log ends, or
    have not answered in time; without live replicas at once. Raises `KafkaError`."""
    if not keys:
        return role.decide(api, request, lambda cluster: decider(cluster, {}))
    parked = Parked()

    def answer(response: Message | None) -> None:
        parked.complete(response)

    def on_surveyed(answers: Answers) -> None:
        if not role.may_decide:
            why = "this controller resigned while replicas were asked"
            parked.complete(api.error_response(request, ErrorCode.NOT_CONTROLLER, why))
            return
        try:
            result = role.decide(api, request, lambda cluster: decider(cluster, answers))
        except KafkaError as error:
            parked.complete(api.error_response(request, error.code, error.message))
            return
        if isinstance(result, Parked):
            result.attach(answer)
        else:
            answer(result)

    role.recovery.survey(keys, on_surveyed)
    return parked
