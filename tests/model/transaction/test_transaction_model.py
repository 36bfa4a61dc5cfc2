"""Producers begin, write, end, die and come back, levels change, coordinators move, leaders do not answer:
what must hold all the same, against a model of the partitions that is a list of what was written there.

* A transaction is committed in all of its partitions or in none.
* What was acknowledged as committed is; what was acknowledged as aborted, or never asked to commit, is not.
* Two producers never have one id and epoch, and epochs of an id only grow.
* When faults end, every transaction ends.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.transaction.states import AT_REST
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.end_txn_request import EndTxnRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from tests.effort import examples
from tests.unit.group.world import Pending
from tests.unit.transaction.world import World

PARTITIONS = 3
NAMES = ("tx", "ty")


class Attempt:
    """One transaction of one producer."""

    def __init__(self) -> None:
        self.places: dict[int, None] = {}
        """Partitions that have a record of it."""
        self.asked: bool | None = None
        """The end that was asked for first."""
        self.ended: bool | None = None
        """The end that was acknowledged."""


class Place:
    """One partition, as its leader has it."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.coordinators: dict[int, int] = {}
        self.open: dict[int, dict[Attempt, None]] = defaultdict(dict)
        self.fates: dict[Attempt, bool] = {}
        self.markers = 0

    def write(self, producer_id: int, epoch: int, attempt: Attempt) -> None:
        if self.epochs.get(producer_id, -1) > epoch:
            return
        self.epochs[producer_id] = epoch
        self.open[producer_id][attempt] = None

    def end(self, marker: Any) -> ErrorCode:
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        known, is_open = self.epochs.get(producer_id, -1), bool(self.open[producer_id])
        if epoch < known or (marker.transaction_version >= 2 and epoch == known and is_open):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.coordinators.get(producer_id, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.epochs[producer_id] = epoch
        self.coordinators[producer_id] = marker.coordinator_epoch
        self.markers += 1
        for attempt in self.open.pop(producer_id, {}):
            assert attempt not in self.fates, "a transaction ended twice"
            self.fates[attempt] = bool(marker.transaction_result)
        return ErrorCode.NONE


class Producer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.producer_id = self.epoch = -1
        self.level = 0
        self.attempt: Attempt | None = None
        self.is_dead = False


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.topic("t", PARTITIONS)
        self.places = [Place() for _ in range(PARTITIONS)]
        self.world.leaders._take = self._take_marker  # type: ignore[method-assign]
        self.refusing = False
        self.producers: dict[tuple[str, int], Producer] = {}
        self.waiting: list[tuple[Any, Pending]] = []
        self.identities: set[tuple[int, int]] = set()
        self.attempts: list[Attempt] = []

    def _take_marker(self, broker: int, marker: Any, topic: str, index: int) -> ErrorCode:
        if self.refusing:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return self.places[index].end(marker)

    def _send(self, request: Any, version: int, on_answer: Any) -> None:
        self.waiting.append((on_answer, self.world.send(request, version)))
        self._poll()

    def _poll(self) -> None:
        answered = [one for one in self.waiting if one[1].answer is not None]
        self.waiting = [one for one in self.waiting if one[1].answer is None]
        for on_answer, pending in answered:
            on_answer(pending.answer)

    # -- producers -------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 1), again=st.booleans())
    def init(self, name: str, number: int, again: bool) -> None:
        """A process begins in this place; one that ran there may continue for a while (`number`)."""
        known = self.producers.get((name, number))
        producer = Producer(name)
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=20_000)
        if again and known is not None and not known.is_dead:
            request.producer_id, request.producer_epoch = known.producer_id, known.epoch
        self.producers[name, number] = producer

        def on_answer(answer: Any) -> None:
            if answer.error_code:
                producer.is_dead = True
                return
            who = (answer.producer_id, answer.producer_epoch)
            assert who not in self.identities, f"two producers are {who}"
            self.identities.add(who)
            producer.producer_id, producer.epoch = who
            producer.level = self.world.level

        self._send(request, 5, on_answer)

    @rule(
        name=st.sampled_from(NAMES), number=st.integers(0, 1), index=st.integers(0, PARTITIONS - 1)
    )
    def write(self, name: str, number: int, index: int) -> None:
        producer = self.producers.get((name, number))
        if producer is None or producer.is_dead or producer.producer_id < 0:
            return
        if producer.attempt is None:
            producer.attempt = Attempt()
            self.attempts.append(producer.attempt)
        attempt = producer.attempt
        if attempt.asked is not None:
            return
        who = (producer.producer_id, producer.epoch)
        place = self.places[index]
        markers = place.markers

        def on_answer(answer: Any) -> None:
            topics = [
                *answer.results_by_topic_v3_and_below,
                *(topic for one in answer.results_by_transaction for topic in one.topic_results),
            ]
            code = topics[0].results_by_partition[0].partition_error_code
            if code == 0 and place.markers == markers and producer.attempt is attempt:
                place.write(*who, attempt)
                attempt.places[index] = None
            elif code == ErrorCode.PRODUCER_FENCED:
                producer.is_dead = True

        topics = [AddPartitionsToTxnTopic(name="t", partitions=[index])]
        if producer.level >= 2:
            one = AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=who[0], producer_epoch=who[1], topics=topics
            )
            self._send(AddPartitionsToTxnRequest(transactions=[one]), 5, on_answer)
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=who[0],
                v3_and_below_producer_epoch=who[1],
                v3_and_below_topics=topics,
            )
            self._send(request, 3, on_answer)

    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 1), commit=st.booleans())
    def end(self, name: str, number: int, commit: bool) -> None:
        """Asked once more where no answer came, as clients do."""
        producer = self.producers.get((name, number))
        if producer is None or producer.is_dead or producer.attempt is None:
            return
        attempt = producer.attempt
        if not attempt.places and producer.level < 2:
            producer.attempt = None
            return
        if attempt.asked is None:
            attempt.asked = commit
        wanted = attempt.asked
        who = (producer.producer_id, producer.epoch)
        request = EndTxnRequest(
            transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=wanted
        )

        def on_answer(answer: Any) -> None:
            if (producer.producer_id, producer.epoch) != who or producer.attempt is not attempt:
                return  # an earlier request was answered meanwhile
            if answer.error_code == 0:
                attempt.ended = wanted
                producer.attempt = None
                if answer.producer_id >= 0:
                    producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
                    assert (answer.producer_id, answer.producer_epoch) != who
                    self.identities.add((answer.producer_id, answer.producer_epoch))
            elif answer.error_code in (
                ErrorCode.PRODUCER_FENCED,
                ErrorCode.INVALID_TXN_STATE,
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ):
                producer.is_dead = True

        self._send(request, 5 if producer.level >= 2 else 4, on_answer)

    @initialize()
    def begin(self) -> None:
        for name in NAMES:
            self.init(name, 0, again=False)

    @rule(
        name=st.sampled_from(NAMES),
        number=st.integers(0, 1),
        indexes=st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=3),
        commit=st.sampled_from([True, True, False, None]),
    )
    def work(self, name: str, number: int, indexes: list[int], commit: bool | None) -> None:
        """A whole transaction, or one that is left open. Who is dead begins again."""
        known = self.producers.get((name, number))
        if known is None or known.is_dead:
            self.init(name, number, again=False)
        for index in indexes:
            self.write(name, number, index)
        if commit is not None:
            self.end(name, number, commit)

    @rule(
        name=st.sampled_from(NAMES),
        number=st.integers(0, 1),
        index=st.integers(0, PARTITIONS - 1),
        commit=st.booleans(),
    )
    def zombie(self, name: str, number: int, index: int, commit: bool) -> None:
        """A process that has an open transaction is taken for dead; it ends its transaction while the one
        that took its place has one of its own."""
        self.work(name, number, [index], None)
        for _ in range(2):  # the first time the open transaction is in its way
            self.init(name, 1 - number, again=False)
            self.wait(200)
        self.write(name, 1 - number, index)
        self.end(name, number, commit)

    # -- the world -------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([10, 200, 2_000, 11_000, 31_000]))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)
        self._poll()

    @rule(level=st.integers(0, 2))
    def level_changes(self, level: int) -> None:
        self.world.level = level

    @rule(held=st.sampled_from([False, False, False, True]))
    def followers(self, held: bool) -> None:
        self.world.held = held
        self.world.settle()
        self._poll()

    @rule(refuse=st.sampled_from([False, False, False, True]))
    def appends(self, refuse: bool) -> None:
        self.world.logs[0].refusal = ErrorCode.NOT_ENOUGH_REPLICAS if refuse else None

    @rule(
        held=st.sampled_from([False, False, True]),
        refusing=st.sampled_from([False, False, True]),
    )
    def leaders(self, held: bool, refusing: bool) -> None:
        self.refusing = refusing
        self.world.leaders.held = held
        if not held:
            self.world.leaders.answer()
            self.world.settle()
            self._poll()

    @rule(broker=st.integers(0, 1), lost=st.sampled_from([False, False, True]))
    def a_leader_is_lost(self, broker: int, lost: bool) -> None:
        """Its answers are lost, not what it was asked."""
        if lost:
            self.world.leaders.silent[broker] = None
        else:
            self.world.leaders.silent.pop(broker, None)

    @rule(lossy=st.booleans())
    def coordinator_changes(self, lossy: bool) -> None:
        """Another broker leads; ``lossy`` where it had only what was committed."""
        self.world.resign()
        self._poll()
        if lossy:
            self.world.logs[0].truncate()
        self.world.elect()
        self._poll()

    # -- what holds ------------------------------------------------------------------------------

    @invariant()
    def fates_are_those_that_were_asked_for(self) -> None:
        for place in self.places:
            for attempt, committed in place.fates.items():
                if committed:
                    assert attempt.asked is True, "committed, though no client asked for it"
                assert attempt.ended is None or attempt.ended == committed

    @invariant()
    def no_transaction_is_torn(self) -> None:
        fates: dict[Attempt, set[bool]] = defaultdict(set)
        for place in self.places:
            for attempt, committed in place.fates.items():
                fates[attempt].add(committed)
        assert all(len(found) == 1 for found in fates.values())

    def teardown(self) -> None:
        """Faults end: every transaction does."""
        self.world.logs[0].refusal = None
        self.refusing = False
        self.world.leaders.held = False
        self.world.leaders.silent.clear()
        self.world.held = False
        self.world.leaders.answer()
        self.world.settle()
        self.world.advance(90_000)
        self._poll()
        for shard in self.world.coordinators.shards.values():
            for name, known in shard.machine.ids.items():
                assert known.state in AT_REST, (name, known)
        for index, place in enumerate(self.places):
            left = [one for of_producer in place.open.values() for one in of_producer]
            assert not left, f"partition {index} waits for ever"
        for attempt in self.attempts:
            if attempt.ended is not None:
                for index in attempt.places:
                    assert self.places[index].fates[attempt] == attempt.ended
        self.fates_are_those_that_were_asked_for()
        self.no_transaction_is_torn()


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
