"""Verifies a transaction's first batch in a partition with the transaction coordinator (KIP-890).

First a :class:`~barnabas.log.state.producer_state.Verification` is begun in the partition's log. Then the
coordinator is asked whether the partition belongs to the transaction; for newer clients it adds the
partition. The log appends the batch only if nothing was written in between that may have opened or ended the
transaction; the marker of the transaction before does not count.
:mod:`barnabas.broker.transaction.partition_verifier` sends and batches the requests.

Source: ``ReplicaManager.maybeSendPartitionsToTransactionCoordinator`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeGuard

from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.partitions.partition import Partition
from barnabas.log.state.producer_state import TRUSTED, Verification
from barnabas.record.batch import HEADER_SIZE, TRANSACTIONAL
from barnabas.types import Buffer, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.produce_request import ProduceRequest

if TYPE_CHECKING:
    from barnabas.broker.roles import TransactionalWriteRole

ENABLE = "transaction.partition.verification.enable"
ABORTABLE_SINCE = 11
"""The version of Produce whose clients know TRANSACTION_ABORTABLE."""
ADDS_SINCE = 12
"""From this version of Produce on the first batch adds its partition to the transaction."""
_ATTRIBUTES_AT = 22
_PRODUCER = Struct(">qhi")
_PRODUCER_AT = 43

Key: TypeAlias = tuple[str | Uuid, int]
"""A topic, as the request names it, and a partition's index."""
Place: TypeAlias = tuple[str, int]
Proof: TypeAlias = Verification | KafkaError | None
"""Outcome of a verification: the append carries the `Verification`; an error refuses it; None allows it only
while its transaction is open in the partition."""
Proceed: TypeAlias = Callable[[Proof], None]
Answers: TypeAlias = Mapping[Place, KafkaError | None]

_RETRIABLE = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class WriteQuestion(NamedTuple):
    """A producer's transaction, and what the version of its request allows."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    """The coordinator adds partitions that are not in the transaction yet."""
    knows_abortable: bool
    """The client knows TRANSACTION_ABORTABLE."""


def is_verifying(broker: TransactionalWriteRole, question: WriteQuestion) -> bool:
    """Whether the coordinator is asked: if ``transaction.partition.verification.enable`` is true,
    or the request adds partitions."""
    return question.adds or broker.broker_texts().get(ENABLE, "true").lower() != "false"


def ask_coordinator(
    broker: TransactionalWriteRole,
    question: WriteQuestion,
    places: Sequence[Place],
    on_done: Callable[[Answers], None],
) -> None:
    """Ask the coordinator about each partition of `places`. `on_done` gets None or an error for each."""

    def answered(codes: Mapping[Place, ErrorCode]) -> None:
        on_done({place: _error_of(codes[place]) for place in places})

    broker.transactions.verifier.verify(
        question.transactional_id,
        question.producer_id,
        question.producer_epoch,
        places,
        add=question.adds,
        abortable=question.knows_abortable,
        on_done=answered,
    )


def _error_of(code: ErrorCode) -> KafkaError | None:
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    return KafkaError(code, f"the transaction coordinator answered {code.name}")


def _for_producers(error: KafkaError | None) -> KafkaError | None:
    """Producers do not retry a coordinator's errors; they retry NOT_ENOUGH_REPLICAS, without a metadata
    request."""
    if error is None or error.code not in _RETRIABLE:
        return error
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        "Unable to verify the partition has been added to the transaction. Underlying error:"
        f" {ErrorCode(error.code).name}",
    )


def prove_writes(
    request: ProduceRequest,
    version: int,
    broker: TransactionalWriteRole,
    proofs: dict[Key, Proof],
    proceed: Callable[[], object],
) -> bool:
    """Put the proof of each transactional batch of the request into `proofs`. Returns whether all of them are
    there; otherwise `proceed` is called when the coordinator has answered. Raises
    INVALID_PRODUCER_ID_MAPPING if the batches are of several producers."""
    first = _transactional_batches(request, by_id=version >= 13)
    producers = {(producer_id, epoch) for _, _, producer_id, epoch, _ in first}
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    if not first:
        return True
    question = WriteQuestion(
        request.transactional_id or "",
        *producers.pop(),
        adds=version >= ADDS_SINCE,
        knows_abortable=version >= ABORTABLE_SINCE,
    )
    if not is_verifying(broker, question):
        proofs.update({(key, index): TRUSTED for key, index, *_ in first})
        return True
    wanted: dict[Key, tuple[Place, Verification]] = {}
    for key, index, _, _, sequence in first:
        partition, _ = broker.replicas.find((key, index))
        if partition is None or partition.topic in INTERNAL_TOPICS:
            continue  # the append reports it
        try:
            verification = _begin(broker, partition, question, sequence)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                proofs[key, index] = error
            continue  # the append reports every other error
        if verification is not None:
            wanted[key, index] = (partition.topic, partition.index), verification
    if not wanted:
        return True

    def answered(answers: Answers) -> None:
        for key, (place, verification) in wanted.items():
            proofs[key] = _for_producers(answers[place]) or verification
        proceed()

    ask_coordinator(broker, question, [place for place, _ in wanted.values()], answered)
    return False


def _begin(
    broker: TransactionalWriteRole, partition: Partition, question: WriteQuestion, sequence: int
) -> Verification | None:
    """Begin a verification; None if the transaction is open in the partition already. Raises ``KafkaError``
    if this broker does not lead the partition, or the partition knows a later epoch of the producer."""
    log = partition.readable_log(-1, leader_only=True)
    return log.producers.begin_verification(
        question.producer_id,
        question.producer_epoch,
        sequence,
        bumps_epochs=question.adds,
        wall_ms=broker.ports.clock.wall_ms(),
    )


def _transactional_batches(
    request: ProduceRequest, *, by_id: bool
) -> list[tuple[str | Uuid, int, int, int, int]]:
    """(topic, partition index, producer id, producer epoch, first sequence) of each transactional batch."""
    found = []
    for topic in request.topic_data:
        key = topic.topic_id if by_id else topic.name
        for data in topic.partition_data:
            records = data.records
            if _is_transactional(records):
                found.append((key, data.index, *_PRODUCER.unpack_from(records, _PRODUCER_AT)))
    return found


def _is_transactional(records: object) -> TypeGuard[Buffer]:
    return (
        isinstance(records, (bytes, bytearray, memoryview))
        and len(records) >= HEADER_SIZE
        and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL)
    )


def begin_group_verification(
    broker: TransactionalWriteRole,
    question: WriteQuestion,
    partition: Partition,
    on_done: Proceed,
) -> None:
    """Verify a transaction's offset commit to `partition` of ``__consumer_offsets``; `on_done` gets the
    proof. Raises ``KafkaError`` if this broker does not lead the partition."""
    if not is_verifying(broker, question):
        on_done(TRUSTED)
        return
    verification = _begin(broker, partition, question, -1)
    if verification is None:
        on_done(None)
        return
    place = (partition.topic, partition.index)
    answered = partial(_after_one, place, verification, on_done)
    ask_coordinator(broker, question, [place], answered)


def _after_one(
    place: Place, verification: Verification, on_done: Proceed, answers: Answers
) -> None:
    on_done(answers[place] or verification)
