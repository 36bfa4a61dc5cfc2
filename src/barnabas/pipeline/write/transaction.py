"""One transaction of a driver or a task: begun by fencing every earlier one of its id, then rows, then end.

Owns the conversation with the coordinator of a transactional id for one transaction. `begin` ends what an
earlier driver left open and makes its requests fail from then on; nothing it wrote is left undecided when
`begin` returns. Speaks the protocol of transaction.version 0 and 1 (partitions are added before they are
written, Produce up to version 11), which every cluster since 0.11 serves.

Source: KIP-98, KIP-360; ``TransactionManager`` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.coordinator import TRANSACTION, Coordinator
from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write.publisher import (
    FENCED,
    FencedError,
    Outgoing,
    ProducerIdentity,
    Publisher,
)
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from barnabas.wire.messages.end_txn_request import EndTxnRequest
from barnabas.wire.messages.end_txn_response import EndTxnResponse
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse

ADD_BY_CLIENTS = 3
"""The last version of AddPartitionsToTxn that clients speak."""
END_BEFORE_IMPLICIT = 4
INIT_BEFORE_TWO_PHASES = 5
INT32_MAX = 2**31 - 1
NO_PRODUCER = ProducerIdentity(-1, -1)


class DriverTransaction:
    """`begin`, then `write`, then `commit` or `abort`."""

    def __init__(
        self,
        cluster: ClusterClient,
        options: SinkOptions,
        transactional_id: str,
        *,
        two_phase: bool = False,
    ) -> None:
        """`two_phase`: without a time-out (KIP-939)."""
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._options = options
        self._two_phase = two_phase
        self._coordinator = Coordinator(cluster, transactional_id, TRANSACTION)
        self.identity = NO_PRODUCER
        self._partitions: set[TopicPartition] = set()

    def __repr__(self) -> str:
        return f"DriverTransaction({self.transactional_id} {self.identity})"

    def begin(self) -> None:
        """Fence, and end what is open. Raises `OptionError`, `KafkaError`, `ChannelError` (unsupported)."""
        self._init(NO_PRODUCER)

    def continue_as(self, identity: ProducerIdentity) -> None:
        """Begin as `begin` does, if the transactional id is still that of `identity`: no other has begun
        since it did (KIP-360). Raises `FencedError` otherwise, and as `begin`."""
        with self._fencing():
            self._init(identity)

    def renew(self) -> None:
        """Prove that no other has begun since this one did. Raises `FencedError`."""
        self.continue_as(self.identity)

    def _init(self, expected: ProducerIdentity) -> None:
        timeout_ms = INT32_MAX if self._two_phase else self._options.transaction_timeout_ms
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.producer_epoch,
            enable2_pc=self._two_phase,
        )
        try:
            answer = self._coordinator.call(
                request,
                InitProducerIdResponse,
                lambda response: [response.error_code],
                at_most=None if self._two_phase else INIT_BEFORE_TWO_PHASES,
            )
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise OptionError(
                    f"kafka.transaction.timeout.ms is at most transaction.max.timeout.ms of the brokers:"
                    f" {timeout_ms} is more"
                ) from error
            raise
        self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        self._partitions.clear()

    def write(self, batches: Sequence[Outgoing]) -> None:
        """Return when all are acknowledged. Raises as `Publisher.publish`."""
        self._add(sorted({batch.partition for batch in batches} - self._partitions))
        Publisher(self._cluster, self.identity, self._options, self.transactional_id).publish(
            batches
        )

    def _add(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in by_topic.items()
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=topics,
        )
        self._partitions.update(partitions)
        with self._fencing():
            self._coordinator.call(
                request, AddPartitionsToTxnResponse, _codes_of_added, at_most=ADD_BY_CLIENTS
            )

    def commit(self) -> None:
        """All of it counts from now on. Raises `FencedError`: then it may count, or not."""
        self._end(True)

    def abort(self) -> None:
        """Nothing of it counts. What cannot be said now is said by the next `begin`, or by its time-out."""
        if self._partitions:
            with suppress(KafkaError, ChannelError, PipelineError):
                self._end(False)

    def _end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=committed,
        )
        with self._fencing():
            self._coordinator.call(
                request,
                EndTxnResponse,
                lambda response: [response.error_code],
                at_most=END_BEFORE_IMPLICIT,
            )

    def _fencing(self) -> _Fencing:
        return _Fencing()


class _Fencing:
    """Has the coordinator's word for it become a `FencedError`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KafkaError) and error.code in FENCED:
            raise FencedError(str(error)) from error


def _codes_of_added(response: AddPartitionsToTxnResponse) -> Iterator[int]:
    for topic in response.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            if result.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                yield result.partition_error_code
