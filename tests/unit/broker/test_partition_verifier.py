"""Questions to coordinators of transactions: what goes together, what follows, what is asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.transaction.partition_verifier import Backoff, CoordinatorVerifier
from barnabas.client.network.connection import ChannelError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.unit.group.world import FakePorts

Verdicts = dict[tuple[str, int], ErrorCode]


class World:
    """A broker that asks, and coordinators that answer when the test says so."""

    def __init__(self) -> None:
        self.ports = FakePorts()
        self.coordinators: dict[str, int | None] = {}
        self.waiting: list[tuple[int, AddPartitionsToTxnRequest, Callable[[Any], None]]] = []
        self.answers: list[tuple[str, Verdicts]] = []
        self.verifier = CoordinatorVerifier(
            self.ports,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            lambda name: self.coordinators.get(name, 1),
            Backoff(20, 100),
        )

    def send(
        self, broker: int, request: Any, on_done: Callable[[Any], None], *, purpose: str
    ) -> None:
        self.waiting.append((broker, request, on_done))

    def ask(self, name: str, *indexes: int, epoch: int = 0, add: bool = True, **how: Any) -> None:
        self.verifier.verify(
            name, 7, epoch, [("t", index) for index in indexes], add=add,
            on_done=lambda verdicts: self.answers.append((name, verdicts)), **how,
        )  # fmt: skip

    def asked(self) -> list[list[tuple[str, int, bool, list[int]]]]:
        return [
            [
                (
                    one.transactional_id,
                    one.producer_epoch,
                    one.verify_only,
                    list(one.topics[0].partitions),
                )
                for one in request.transactions
            ]
            for _, request, _ in self.waiting
        ]

    def answer(self, code: ErrorCode = ErrorCode.NONE, top: ErrorCode = ErrorCode.NONE) -> None:
        _, request, on_done = self.waiting.pop(0)
        on_done(
            AddPartitionsToTxnResponse(
                error_code=top,
                results_by_transaction=[
                    AddPartitionsToTxnResult(
                        transactional_id=one.transactional_id,
                        topic_results=[
                            AddPartitionsToTxnTopicResult(
                                name=topic.name,
                                results_by_partition=[
                                    AddPartitionsToTxnPartitionResult(
                                        partition_index=index, partition_error_code=code
                                    )
                                    for index in topic.partitions
                                ],
                            )
                            for topic in one.topics
                        ],
                    )
                    for one in request.transactions
                ],
            )
        )

    def codes(self) -> list[str]:
        return [code.name for _, verdicts in self.answers for code in verdicts.values()]


def test_questions_that_come_while_one_is_under_way_go_together() -> None:
    world = World()
    world.ask("a", 0)
    world.ask("b", 1)
    world.ask("b", 2)
    world.ask("c", 3, add=False)
    assert world.asked() == [[("a", 0, False, [0])]]
    world.answer()
    assert world.asked() == [[("b", 0, False, [1, 2]), ("c", 0, True, [3])]]
    world.answer()
    assert [name for name, _ in world.answers] == ["a", "b", "b", "c"]
    assert set(world.codes()) == {"NONE"}


def test_two_producers_of_one_transactional_id_are_asked_about_in_turn() -> None:
    world = World()
    world.ask("x", 0)
    world.ask("a", 0, epoch=1)
    world.ask("a", 1, epoch=2)
    world.answer()
    assert world.asked() == [[("a", 1, False, [0])]]
    world.answer(ErrorCode.PRODUCER_FENCED)
    assert world.asked() == [[("a", 2, False, [1])]]
    world.answer()
    assert world.codes() == ["NONE", "INVALID_PRODUCER_EPOCH", "NONE"]


def test_a_question_without_a_coordinator_is_answered_at_once() -> None:
    world = World()
    world.coordinators["a"] = None
    world.ask("a", 0)
    assert world.codes() == ["COORDINATOR_NOT_AVAILABLE"]


def test_a_lost_connection_is_a_network_exception_for_all_that_it_carried() -> None:
    world = World()
    world.ask("a", 0)
    world.waiting.pop()[2](ChannelError("closed", "gone"))
    assert world.codes() == ["NETWORK_EXCEPTION"]


@pytest.mark.parametrize(
    ("code", "abortable", "shown"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, True, "TRANSACTION_ABORTABLE"),
        (ErrorCode.TRANSACTION_ABORTABLE, False, "INVALID_TXN_STATE"),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, True, "COORDINATOR_NOT_AVAILABLE"),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, "CONCURRENT_TRANSACTIONS"),
        (ErrorCode.NOT_COORDINATOR, True, "NOT_COORDINATOR"),
    ],
)
def test_codes_are_those_that_a_write_may_show(
    code: ErrorCode, abortable: bool, shown: str
) -> None:
    world = World()
    world.ask("a", 0, add=False, abortable=abortable)
    world.answer(code)
    assert world.codes() == [shown]


def test_a_refusal_of_a_whole_request_is_refused_to_all() -> None:
    world = World()
    world.ask("a", 0)
    world.answer(top=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert world.codes() == ["INVALID_TXN_STATE"]


def test_a_write_waits_a_while_for_the_end_of_the_transaction_before() -> None:
    world = World()
    world.ask("a", 0)
    for _ in range(3):
        world.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert world.waiting == []
        world.ports.advance(20)
    world.answer()
    assert world.codes() == ["NONE"]


def test_it_does_not_wait_for_longer_than_it_may() -> None:
    world = World()
    world.ask("a", 0)
    for _ in range(6):
        if world.waiting:
            world.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        world.ports.advance(20)
    assert world.codes() == ["CONCURRENT_TRANSACTIONS"]
    assert world.waiting == []
