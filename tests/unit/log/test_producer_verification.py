"""Which batches of transactions a leader takes, beside a plain model, in any order of events (KIP-890).

The model knows the truth: what each producer has open, and for each question whether anything of its
producer was written since it was asked. A batch enters where its transaction is open, or on the answer to
such a question; so no record ever comes after its transaction's marker.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.log.state.producer_state import TRUSTED, Verification
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.effort import examples
from tests.unit.log.directories_world import DirectoriesWorld

NOW_MS = 1_700_000_000_000
producers = st.integers(1, 2)
STEPS = st.one_of(
    st.tuples(st.just("ask"), producers),
    st.tuples(st.just("write"), producers, st.integers(0, 3)),
    st.tuples(st.just("write"), producers, st.integers(0, 3)),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("replicate")),
)


class Question(NamedTuple):
    verification: Verification
    producer: int
    writes: int
    """Of the producer, when it was asked."""


class Model:
    """One leader's log."""

    def __init__(self) -> None:
        self.device = SimDisk(Random(1))
        self.log = self._open(clean=False)
        self.epochs = {1: 0, 2: 0}
        self.sequences = {1: 0, 2: 0}
        self.open: dict[int, int] = {}
        """First offset of the open transaction."""
        self.aborted: set[tuple[int, int]] = set()
        self.decided: list[tuple[int, int]] = []
        """(first offset, marker's) of those that have ended."""
        self.known_since = 0
        """Index in `decided` from which the log knows which markers are not replicated."""
        self.writes = {1: 0, 2: 0}
        self.questions: list[Question] = []

    def _open(self, *, clean: bool) -> PartitionLog:
        disk = self.device.open_for_process()
        disk.make_dirs("/data")
        self.files = FileCache(disk)
        return open_log(
            self.files,
            "/data/t-0",
            TopicPartition("t", 0),
            LogConfig(segment_bytes=600),
            LogCheckpoints(clean=clean, recovery_point=0),
        ).log

    def ask(self, producer: int) -> None:
        verification = self.log.producers.begin_verification(
            producer, self.epochs[producer], self.sequences[producer], bumps_epochs=False,
            wall_ms=NOW_MS,
        )  # fmt: skip
        assert (verification is None) == (producer in self.open)
        if verification is not None:
            self.questions.append(Question(verification, producer, self.writes[producer]))

    def write(self, producer: int, which: int) -> None:
        mine = [q for q in self.questions if q.producer == producer]
        question = mine[-1 - which] if which < len(mine) else None
        batch = build_batch(
            [(b"k", b"v")],
            timestamp_ms=NOW_MS,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            base_sequence=self.sequences[producer],
            transactional=True,
        )
        may = producer in self.open or (
            question is not None and question.writes == self.writes[producer]
        )
        end = self.log.log_end_offset
        try:
            self.log.append_as_leader(
                batch,
                leader_epoch=0,
                wall_ms=NOW_MS,
                verification=None if question is None else question.verification,
            )
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_TXN_STATE
            assert not may
            assert self.log.log_end_offset == end
            return
        assert may
        self.sequences[producer] += 1
        self.writes[producer] += 1
        self.open.setdefault(producer, end)

    def end(self, producer: int, commit: bool) -> None:
        end = self.log.log_end_offset
        marker = end_transaction_marker(
            commit=commit,
            timestamp_ms=NOW_MS,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            coordinator_epoch=0,
        )
        self.log.append_as_leader(
            marker, leader_epoch=0, wall_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
        )
        self.writes[producer] += 1
        first = self.open.pop(producer, None)
        if first is not None:
            self.decided.append((first, end))
            if not commit:
                self.aborted.add((producer, first))

    def replicate(self) -> None:
        self.log.move_high_watermark(self.log.log_end_offset)

    def restart(self, clean: bool) -> None:
        mark = self.log.high_watermark
        self.log.close(clean=clean)
        self.log = self._open(clean=clean)
        self.log.move_high_watermark(mark)
        self.questions.clear()  # the requests are gone with the process
        # A producer snapshot says nothing of markers that are not replicated; their coordinator's decision
        # stays, and the ranges that were aborted are in the index.
        self.known_since = len(self.decided)

    def check(self) -> None:
        log, mark = self.log, self.log.high_watermark
        unstable = [first for first, marker in self.decided if first < mark <= marker]
        known = [first for first, marker in self.decided[self.known_since :] if mark <= marker]
        unsettled = [mark, *self.open.values()]
        assert min(unstable + unsettled) <= log.last_stable_offset <= min(known + unsettled)
        found = log.read_transactions(0, log.log_end_offset)
        assert set(found) == self.aborted
        assert len(found) == len(self.aborted)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_record_comes_after_its_transactions_marker(steps: list[tuple[Any, ...]]) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
        model.check()


@pytest.fixture
def model() -> Model:
    return Model()


def test_a_trusted_append_is_not_verified(model: Model) -> None:
    batch = build_batch(
        [(b"k", b"v")], timestamp_ms=NOW_MS, producer_id=1, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    model.log.append_as_leader(batch, leader_epoch=0, wall_ms=NOW_MS, verification=TRUSTED)
    assert model.log.producers.open_transactions == {1: 0}


def test_a_higher_sequence_waits_for_the_lowest_that_asked(model: Model) -> None:
    states = model.log.producers
    known = states.begin_verification(1, 0, 5, bumps_epochs=False, wall_ms=NOW_MS)
    assert states.begin_verification(1, 0, 3, bumps_epochs=False, wall_ms=NOW_MS) is known

    def batch(sequence: int) -> bytes:
        return build_batch(
            [(b"k", b"v")], timestamp_ms=NOW_MS, producer_id=1, producer_epoch=0,
            base_sequence=sequence, transactional=True,
        )  # fmt: skip

    with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        model.log.append_as_leader(batch(5), leader_epoch=0, wall_ms=NOW_MS, verification=known)
    model.log.append_as_leader(batch(3), leader_epoch=0, wall_ms=NOW_MS, verification=known)


def test_a_question_without_an_answer_is_forgotten(model: Model) -> None:
    states = model.log.producers
    states.begin_verification(1, 0, 0, bumps_epochs=True, wall_ms=NOW_MS)
    states.expire(NOW_MS + 999, 1_000)
    assert states.verifications
    states.expire(NOW_MS + 1_000, 1_000)
    assert not states.verifications


def test_a_question_of_a_log_without_producers_is_forgotten_too() -> None:
    world = DirectoriesWorld(
        settings={
            "producer.id.expiration.ms": "5000",
            "producer.id.expiration.check.interval.ms": "1000",
        }
    )
    states = world.logs.create(TopicPartition("t", 0), Uuid(bytes(16))).producers
    states.begin_verification(1, 0, 0, bumps_epochs=True, wall_ms=world.process.clock.wall_ms())
    world.run_ms(4_000)
    assert states.verifications
    assert not states.entries
    world.run_ms(3_000)
    assert not states.verifications
