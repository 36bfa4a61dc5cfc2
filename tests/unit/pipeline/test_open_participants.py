"""Open transactions of tasks are listed by every coordinator, also by one that has just become one."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.pipeline.write.prepared import participants
from barnabas.pipeline.write.prepared.participants import ONGOING, Participant, list_open
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from barnabas.wire.messages.list_transactions_request import ListTransactionsRequest
from barnabas.wire.messages.list_transactions_response import ListTransactionsResponse
from barnabas.wire.messages.list_transactions_response import TransactionState as Listed

NAME = "driver.0abcb7ee46db.0"


class LoadingBroker:
    """A cluster of one broker: the first `refusals` lists find it loading."""

    patience_ms = 60_000
    request_timeout_ms = 1_000

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def topics(self, names: list[str]) -> None: ...

    def brokers(self) -> list[Endpoint]:
        return [Endpoint("h", 1)]

    def call(self, endpoint: Endpoint, request: Any, response: Any) -> Any:
        if not isinstance(request, ListTransactionsRequest):
            return DescribeTransactionsResponse(
                transaction_states=[
                    TransactionState(
                        transactional_id=NAME, transaction_state=ONGOING, producer_id=7
                    )
                ]
            )
        self.refusals -= 1
        if self.refusals >= 0:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return ListTransactionsResponse(transaction_states=[Listed(transactional_id=NAME)])


@pytest.mark.slow
def test_a_coordinator_that_is_being_loaded_is_asked_again() -> None:
    found = list_open(LoadingBroker(2), "driver")  # type: ignore[arg-type]
    assert found == [Participant("0abcb7ee46db.0", 7, 0)]


def test_a_coordinator_that_stays_loading_is_left_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(participants, "LOADING_MS_MAX", 50)
    assert list_open(LoadingBroker(1_000_000), "driver") == []  # type: ignore[arg-type]
