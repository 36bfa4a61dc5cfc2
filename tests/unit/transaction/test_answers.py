"""Our coordinator and our leader give the answers of docs/transaction-answers.md, in every state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.log.state.producer_state import TRUSTED, ProducerStates
from barnabas.record.batch import CONTROL, TRANSACTIONAL, BatchHeader
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message
from tests.transaction_answers import TOPIC, Answers, ask_all, ask_leader, table
from tests.unit.transaction.world import World


class Machine:
    """Our coordinator in memory, as an `Asker`."""

    def __init__(self) -> None:
        self.world = World()
        self.world.topic(TOPIC, partitions=2)

    def send(self, request: Message, version: int) -> Any:
        pending = self.world.send(request, version)
        if pending.answer is None:  # it waits for the markers
            self.world.advance(1_000)
        return pending.answer

    def hold_markers(self) -> None:
        self.world.leaders.held = True

    def release_markers(self) -> None:
        self.world.leaders.held = False

    def is_ended(self, transactional_id: str) -> bool:
        known = self.world.coordinators.shards[0].machine.ids.get(transactional_id)
        return known is not None and not known.is_ending


def wait_until(happened: Callable[[], bool], what: str) -> None:
    assert any(happened() for _ in range(3)), what


class Log:
    """The producers of one partition, as a `Leader`."""

    def __init__(self) -> None:
        self.states = ProducerStates()

    def _header(self, producer_id: int, epoch: int, sequence: int, attributes: int) -> BatchHeader:
        return BatchHeader(
            self.states.end_offset, 60, 0, 2, 0, attributes, 0, 0, 0, producer_id, epoch, sequence, 1
        )  # fmt: skip

    def write(self, producer_id: int, epoch: int, sequence: int) -> ErrorCode:
        header = self._header(producer_id, epoch, sequence, TRANSACTIONAL)
        try:
            self.states.check(header, TRUSTED)
        except KafkaError as error:
            return ErrorCode(error.code)
        self.states.update(header)
        return ErrorCode.NONE

    def mark(self, producer_id: int, epoch: int, version: int, coordinator_epoch: int) -> ErrorCode:
        header = self._header(producer_id, epoch, -1, TRANSACTIONAL | CONTROL)
        try:
            self.states.check_marker(header, coordinator_epoch, version)
        except KafkaError as error:
            return ErrorCode(error.code)
        self.states.update(header, (False, coordinator_epoch))
        return ErrorCode.NONE


def assert_same(found: Answers, wanted: Answers) -> None:
    assert wanted
    different = {row: (cells, wanted.get(row)) for row, cells in found.items()}
    assert {row: both for row, both in different.items() if both[0] != both[1]} == {}
    assert set(found) == set(wanted)


@pytest.mark.slow
def test_the_coordinator_answers_as_the_table_says() -> None:
    assert_same(ask_all(Machine(), wait_until), table("coordinator")[1])


def test_the_leader_answers_as_the_table_says() -> None:
    assert_same(ask_leader(Log()), table("leader")[1])
