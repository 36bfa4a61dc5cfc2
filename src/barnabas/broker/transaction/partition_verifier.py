"""Asks a transaction's coordinator whether a partition belongs to the transaction (KIP-890).

A leader asks before it appends the first batch of a transaction; a group's coordinator asks before
it takes a transaction's offsets. Otherwise a late request could open a transaction again that has
ended, and would then stay open for ever. A client of ``transaction.version`` 2 does not add
partitions by itself; the question then adds them (`add`).

Questions to one coordinator share a request, and one request to a broker is under way at a time.
Questions of one producer about one transactional id are joined. If two producers use the same id,
their questions are sent one after the other, and the coordinator says which of the two is fenced.

Source: ``AddPartitionsToTxnManager`` of Apache Kafka 4.3, and ``ReplicaManager`` for how long a
question is asked again after CONCURRENT_TRANSACTIONS. Kafka refuses the earlier of two questions of
one producer with NETWORK_EXCEPTION; here both are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from barnabas.broker.transaction.peers import Peers
from barnabas.client.network.connection import ChannelError
from barnabas.ports import Ports, call_all
from barnabas.types import by_topic
from barnabas.wire.errors import ErrorCode, code_of
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

Place: TypeAlias = "tuple[str, int]"
"""Topic and partition."""
Verdicts: TypeAlias = "dict[Place, ErrorCode]"
OnVerdicts: TypeAlias = Callable[[Verdicts], None]
PURPOSE = "transactions"

_IN_A_WRITE = {
    # Producers know this code from a write.
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    # The broker lacks the right, not the producer.
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
    # Another partition of the request failed.
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class PartitionVerifier(Protocol):
    """The verification that Produce and TxnOffsetCommit use."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[Place],
        *,
        add: bool,
        on_done: OnVerdicts,
        abortable: bool = True,
    ) -> None:
        """Ask whether `partitions` belong to the producer's open transaction, or add them to it
        (`add`). `on_done` is called once, perhaps at once, with a code for each partition.
        `abortable` says whether the client knows TRANSACTION_ABORTABLE (Produce from version 11,
        TxnOffsetCommit from 4)."""


class _Question:
    """One `verify` that is not answered."""

    __slots__ = (
        "abortable",
        "add",
        "epoch",
        "on_done",
        "places",
        "producer_id",
        "since_ms",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        places: list[Place],
        add: bool,
        on_done: OnVerdicts,
        abortable: bool,
        since_ms: float,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = epoch
        self.places = places
        self.add = add
        self.on_done = on_done
        self.abortable = abortable
        self.since_ms = since_ms

    @property
    def kind(self) -> tuple[int, int, bool]:
        """Questions of one kind about one transactional id are joined."""
        return self.producer_id, self.epoch, self.add

    def refuse(self, code: ErrorCode) -> None:
        self.answer(dict.fromkeys(self.places, code))

    def answer(self, verdicts: Verdicts) -> None:
        self.on_done({place: self._shown(verdicts.get(place)) for place in self.places})

    def _shown(self, code: ErrorCode | None) -> ErrorCode:
        if code is None:  # the coordinator left it out
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code == ErrorCode.TRANSACTION_ABORTABLE and not self.abortable:
            return ErrorCode.INVALID_TXN_STATE
        return _IN_A_WRITE.get(code, code)


class Backoff(NamedTuple):
    """The delays between retries of a question while the producer's last transaction is ending."""

    pause_ms: float
    """``add.partitions.to.txn.retry.backoff.ms``."""
    total_ms: float
    """``add.partitions.to.txn.retry.backoff.max.ms``."""


class CoordinatorVerifier:
    """:class:`PartitionVerifier` that asks the coordinators of the cluster."""

    def __init__(
        self,
        ports: Ports,
        peers: Peers,
        coordinator_of: Callable[[str], int | None],
        backoff: Backoff,
    ) -> None:
        """`coordinator_of` gives the broker that coordinates a transactional id, None while there is none."""
        self._ports = ports
        self._peers = peers
        self._coordinator_of = coordinator_of
        self._backoff = backoff
        self._queued: dict[int, list[_Question]] = {}
        """The questions for the next request to each broker."""
        self._asking: dict[int, dict[str, list[_Question]]] = {}
        """The questions of the request to each broker that is under way, by transactional id."""

    def __repr__(self) -> str:
        return f"CoordinatorVerifier({len(self._asking)} under way, {len(self._queued)} queued)"

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[Place],
        *,
        add: bool,
        on_done: OnVerdicts,
        abortable: bool = True,
    ) -> None:
        """See :class:`PartitionVerifier`."""
        now_ms = self._ports.clock.now_ms()
        self._ask(
            _Question(
                transactional_id, producer_id, producer_epoch, list(partitions), add, on_done,
                abortable, now_ms,
            )
        )  # fmt: skip

    def _ask(self, question: _Question) -> None:
        broker = self._coordinator_of(question.transactional_id)
        if broker is None:
            question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._queued.setdefault(broker, []).append(question)
        self._send(broker)

    def _send(self, broker: int) -> None:
        queued = self._queued.get(broker)
        if not queued or broker in self._asking:
            return
        asked: dict[str, list[_Question]] = {}
        later: list[_Question] = []
        for question in queued:
            together = asked.setdefault(question.transactional_id, [])
            if not together or together[0].kind == question.kind:
                together.append(question)
            else:
                later.append(question)
        if later:
            self._queued[broker] = later
        else:
            del self._queued[broker]
        self._asking[broker] = asked
        request = AddPartitionsToTxnRequest(
            transactions=[_transaction(questions) for questions in asked.values()]
        )
        self._peers.send(broker, request, partial(self._on_response, broker), purpose=PURPOSE)

    def _on_response(self, broker: int, response: Any) -> None:
        asked = self._asking.pop(broker)
        try:
            if isinstance(response, ChannelError):
                self._refuse_all(asked, ErrorCode.NETWORK_EXCEPTION)
            else:
                self._on_answers(asked, response)
        finally:
            self._send(broker)

    def _refuse_all(self, asked: dict[str, list[_Question]], code: ErrorCode) -> None:
        code = _IN_A_WRITE.get(code, code)
        call_all(partial(q.refuse, code) for questions in asked.values() for q in questions)

    def _on_answers(
        self, asked: dict[str, list[_Question]], response: AddPartitionsToTxnResponse
    ) -> None:
        if response.error_code:
            self._refuse_all(asked, code_of(response.error_code))
            return
        verdicts: dict[str, Verdicts] = {}
        for result in response.results_by_transaction:
            verdicts[result.transactional_id] = {
                (topic.name, found.partition_index): code_of(found.partition_error_code)
                for topic in result.topic_results
                for found in topic.results_by_partition
            }
        call_all(
            partial(self._answer, question, verdicts.get(transactional_id, {}))
            for transactional_id, questions in asked.items()
            for question in questions
        )

    def _answer(self, question: _Question, verdicts: Verdicts) -> None:
        pause_ms, total_ms = self._backoff
        now_ms = self._ports.clock.now_ms()
        busy = any(
            verdicts.get(place) == ErrorCode.CONCURRENT_TRANSACTIONS for place in question.places
        )
        if busy and question.add and now_ms + pause_ms - question.since_ms <= total_ms:
            # The last transaction is ending: usually it has ended before the retry.
            self._ports.wakeups.call_at(now_ms + pause_ms, partial(self._ask, question))
        else:
            question.answer(verdicts)


def _transaction(questions: list[_Question]) -> AddPartitionsToTxnTransaction:
    first = questions[0]
    places = dict.fromkeys(place for question in questions for place in question.places)
    return AddPartitionsToTxnTransaction(
        transactional_id=first.transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.epoch,
        verify_only=not first.add,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=partitions)
            for name, partitions in by_topic(places).items()
        ],
    )
