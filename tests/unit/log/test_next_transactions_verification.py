"""The first batch of the next transaction, while the marker of the one before is on its way (KIP-890).

A producer of transaction.version 2 has its next epoch before the partitions have the marker. The model knows
which batches may enter: a confirmed question is never lost to an event of an earlier transaction, and no
record comes after its own transaction's marker.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.state.producer_state import ProducerStates, Verification
from barnabas.record.batch import CONTROL, TRANSACTIONAL, BatchHeader
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.effort import examples

PRODUCER = 7
NOW_MS = 1_700_000_000_000
STEPS = st.one_of(
    st.tuples(st.just("ask")),
    st.tuples(st.just("confirm")),
    st.tuples(st.just("write"), st.integers(0, 3)),
    st.tuples(st.just("write"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.booleans()),
    st.tuples(st.just("mark")),
    st.tuples(st.just("mark_again"), st.integers(0, 3)),
)


def header(offset: int, attributes: int, epoch: int, sequence: int) -> BatchHeader:
    return BatchHeader(
        offset, 60, 0, 2, 0, attributes, 0, NOW_MS, NOW_MS, PRODUCER, epoch, sequence, 1
    )


class Log:
    """The producer states of one leader, and what is written there."""

    def __init__(self) -> None:
        self.states = ProducerStates()

    def ask(self, epoch: int, sequence: int = 0, *, bumps: bool = True) -> Verification | None:
        return self.states.begin_verification(
            PRODUCER, epoch, sequence, bumps_epochs=bumps, wall_ms=NOW_MS
        )

    def write(self, epoch: int, sequence: int, proof: Verification | None) -> None:
        batch = header(self.states.end_offset, TRANSACTIONAL, epoch, sequence)
        assert self.states.check(batch, proof) is None
        self.states.update(batch)

    def mark(self, epoch: int, version: int = 2, *, aborted: bool = False) -> None:
        marker = header(self.states.end_offset, TRANSACTIONAL | CONTROL, epoch, -1)
        self.states.check_marker(marker, 0, version)
        self.states.update(marker, (aborted, 0))


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_marker_of_the_transaction_before_keeps_the_next_ones_question(log: Log) -> None:
    log.write(0, 0, log.ask(0))
    question = log.ask(1)
    log.mark(1)
    log.write(1, 0, question)
    assert log.states.has_open_transaction(PRODUCER, 1)


def test_a_marker_that_arrives_twice_keeps_the_question(log: Log) -> None:
    log.write(0, 0, log.ask(0))
    log.mark(1)
    question = log.ask(1)
    log.mark(1)
    log.write(1, 0, question)


def test_the_marker_of_the_same_transaction_voids_the_question(log: Log) -> None:
    question = log.ask(0)
    log.mark(1, aborted=True)
    with pytest.raises(KafkaError) as refused:
        log.write(0, 0, question)
    assert refused.value.code in (
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    )


def test_a_marker_of_a_shared_epoch_voids_the_question(log: Log) -> None:
    """Before version 2 nothing tells whether it is the marker of this transaction."""
    question = log.ask(0, bumps=False)
    log.mark(0, version=0, aborted=True)
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        log.write(0, 0, question)


def test_a_marker_of_an_earlier_epoch_keeps_the_question_of_any_version(log: Log) -> None:
    log.write(0, 0, log.ask(0, bumps=False))
    log.mark(0, version=0)
    question = log.ask(1, bumps=False)
    log.mark(0, version=0)
    log.write(1, 0, question)


def test_a_late_batch_of_the_transaction_before_keeps_the_next_ones_question(log: Log) -> None:
    """The producer aborted with a batch on its way, and began again before the marker was written."""
    log.write(0, 0, log.ask(0))
    late = log.ask(0, 1)
    assert late is None
    question = log.ask(1)
    log.write(0, 1, late)
    log.mark(1, aborted=True)
    log.write(1, 0, question)


def test_the_next_ones_question_proves_nothing_for_the_transaction_before(log: Log) -> None:
    first = log.ask(0)
    second = log.ask(1)
    assert second is not first
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        log.write(0, 0, first)
    log.write(1, 0, second)


def test_a_question_of_an_earlier_epoch_is_refused(log: Log) -> None:
    log.ask(1)
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        log.ask(0)
    log.mark(3)
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        log.ask(2)


class Model(Log):
    """One producer of version 2, its coordinator and one partition."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = self.sequence = 0
        self.questions: list[tuple[int, Verification | None]] = []
        self.confirmed: set[int] = set()
        """Epochs of the transactions that the partition was added to."""
        self.markers: list[tuple[int, bool]] = []
        """Decided, not written."""
        self.written: list[tuple[int, bool]] = []
        self.opened: int | None = None
        """The epoch of the open transaction in the log."""

    @property
    def last_marker(self) -> int:
        return max((epoch for epoch, _ in self.written), default=-1)

    def do_ask(self) -> None:
        question = self.ask(self.epoch, self.sequence)
        assert (question is None) == (self.opened == self.epoch)
        self.questions.append((self.epoch, question))

    def do_confirm(self) -> None:
        """The coordinator answers CONCURRENT_TRANSACTIONS until all markers are written."""
        if not self.markers and any(epoch == self.epoch for epoch, _ in self.questions):
            self.confirmed.add(self.epoch)

    def do_write(self, which: int) -> None:
        if which >= len(self.questions):
            return
        epoch, question = self.questions[-1 - which]
        sequence = self.sequence if epoch == self.epoch else 9
        if question is not None and epoch not in self.confirmed:
            return
        may = epoch == self.epoch and self.last_marker <= epoch
        try:
            self.write(epoch, sequence, question)
        except KafkaError:
            assert not may
        else:
            assert self.last_marker <= epoch, "a record after its transaction's marker"
            self.opened = epoch
            if epoch == self.epoch:
                self.sequence += 1

    def do_end(self, aborted: bool) -> None:
        if self.epoch in self.confirmed:
            self.markers.append((self.epoch + 1, aborted))
        elif not aborted or self.markers:
            return
        self.epoch, self.sequence = self.epoch + 1, 0

    def do_mark(self) -> None:
        if self.markers:
            epoch, aborted = self.markers.pop(0)
            self.mark(epoch, aborted=aborted)
            self.written.append((epoch, aborted))
            self.opened = None

    def do_mark_again(self, which: int) -> None:
        if which >= len(self.written):
            return
        epoch, aborted = self.written[-1 - which]
        before = self.opened
        with_open = dict(self.states.open_transactions)
        try:
            self.mark(epoch, aborted=aborted)
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert self.states.open_transactions == with_open, "it ended another transaction"
        self.opened = before


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_question_is_lost_to_the_transaction_before(steps: list[tuple[Any, ...]]) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, f"do_{name}")(*arguments)
        model.states.validate()
