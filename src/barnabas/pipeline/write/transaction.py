"""One transaction of a driver or a task: begun by fencing every earlier one of its id, then rows, then end.

Owns the partitions and the end of one transaction; the requests are those of
:mod:`barnabas.client.producers.transaction_coordinator`. `begin` ends what an earlier driver left open and
makes its requests fail from then on; nothing it wrote is left undecided when `begin` returns. Speaks the
protocol of transaction.version 0 and 1 (partitions are added before they are written, Produce up to version
11), which every cluster since 0.11 serves.

Source: KIP-98, KIP-360; ``TransactionManager`` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from barnabas.client.network.connection import ChannelError
from barnabas.client.producers.transaction_coordinator import (
    END_BEFORE_IMPLICIT,
    NO_PRODUCER,
    NO_TIMEOUT_MS,
    ProducerIdentity,
    TransactionCoordinator,
)
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write.publisher import (
    FENCED,
    FencedError,
    Outgoing,
    Publisher,
)
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")

INIT_BEFORE_TWO_PHASES = 5


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
        timeout_ms = NO_TIMEOUT_MS if self._two_phase else self._options.transaction_timeout_ms
        try:
            self.identity = self._ask(
                lambda coordinator: coordinator.take_identity(
                    expected,
                    transaction_timeout_ms=timeout_ms,
                    two_phase=self._two_phase,
                    at_most=None if self._two_phase else INIT_BEFORE_TWO_PHASES,
                )
            )
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise OptionError(
                    f"kafka.transaction.timeout.ms is at most transaction.max.timeout.ms of the brokers:"
                    f" {timeout_ms} is more"
                ) from error
            raise
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
        self._partitions.update(partitions)
        with self._fencing():
            self._ask(lambda coordinator: coordinator.add_partitions(self.identity, partitions))

    def commit(self) -> None:
        """All of it counts from now on. Raises `FencedError`: then it may count, or not."""
        self._end(True)

    def abort(self) -> None:
        """Nothing of it counts. What cannot be said now is said by the next `begin`, or by its time-out."""
        if self._partitions:
            with suppress(KafkaError, ChannelError, PipelineError):
                self._end(False)

    def _end(self, committed: bool) -> None:
        with self._fencing():
            self._ask(
                lambda coordinator: coordinator.end(
                    self.identity, commit=committed, at_most=END_BEFORE_IMPLICIT
                )
            )

    def _ask(self, begin: Callable[[TransactionCoordinator], Coroutine[Any, Any, T]]) -> T:
        """Ask the coordinator until it has done it. Raises `KafkaError`, `ChannelError` (unsupported),
        `ClusterUnreachableError`."""
        cluster = self._cluster
        return cluster.patiently(
            cluster.patience_ms,
            f"coordinator of {self.transactional_id}",
            lambda client: begin(
                TransactionCoordinator(
                    client,
                    self.transactional_id,
                    timeout_ms=cluster.patience_ms,
                    attempt_timeout_ms=cluster.request_timeout_ms,
                )
            ),
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
