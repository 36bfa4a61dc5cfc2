"""The transaction coordinators of a broker.

Owns the wiring of :class:`~barnabas.transaction.machine.TransactionMachine` into
:class:`~barnabas.broker.coordinator.coordinators.Coordinators`, and the machine's effects: markers are sent
by :class:`~barnabas.broker.transaction.markers.Markers`, producer ids come from the controller. The rules are
the machine's, the requests' forms the handlers'.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from barnabas.broker.coordinator.coordinators import (
    Coordinators,
    CoordinatorShard,
    Done,
    Instant,
    Operation,
)
from barnabas.config.node import NodeConfig
from barnabas.ports import Ports, Wakeup, call_all
from barnabas.transaction.machine import TransactionMachine
from barnabas.transaction.metrics import TransactionCounters
from barnabas.transaction.outcome import (
    Completed,
    GetProducerId,
    NeedsProducerId,
    SendMarkers,
    TransactionOutcome,
)
from barnabas.types import TRANSACTIONS_TOPIC
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message

OnId = Callable[[int | KafkaError], None]


class _Wait:
    """An operation that is decided again when the earlier transaction is complete, or after a while."""

    __slots__ = ("_again", "late")

    def __init__(self, again: Callable[[], None]) -> None:
        self._again = again
        self.late: Wakeup | None = None

    def end(self) -> None:
        if self.late is not None:
            self.late.cancel()
        self._again()


class MarkerSender(Protocol):
    """Writes the markers of transactions whose end is committed."""

    def add(self, partition: int, coordinator_epoch: int, markers: SendMarkers) -> None:
        """Write the markers for the shard of `partition`."""

    def cancel(self, partition: int) -> None:
        """The shard ended: another broker writes its markers."""


class TransactionCoordinators(Coordinators[TransactionMachine]):
    """A transaction machine per partition of ``__transaction_state`` that this broker leads."""

    markers: MarkerSender
    """Set once, before the first shard."""

    def __init__(
        self,
        config: NodeConfig,
        ports: Ports,
        partition_count: Callable[[], int],
        level: Callable[[], int],
        allocate_id: Callable[[OnId], None],
        waits_to_lead: Callable[[int], bool] = lambda partition: False,
    ) -> None:
        """`partition_count` and `waits_to_lead`: of ``__transaction_state``; `level`: the cluster's
        ``transaction.version``; `allocate_id` gives a fresh producer id."""
        settings = config.transactions
        self._allocate_id = allocate_id
        self._patience_ms = settings.retry_total_ms
        self.counters = counters = TransactionCounters()
        self._waits: dict[str, list[_Wait]] = {}
        """The requests that wait for the end of a transaction, by transactional id."""
        super().__init__(
            TRANSACTIONS_TOPIC,
            ports,
            lambda: TransactionMachine(settings, level, counters),
            partition_count,
            waits_to_lead,
            write_timeout_ms=int(config.broker.request_timeout_ms),
            load_bytes=settings.load_bytes,
        )

    def write_with_id(
        self,
        transactional_id: str,
        operation: Callable[[TransactionMachine, int | None, Instant], TransactionOutcome],
        done: Done,
    ) -> None:
        """Write as `write` does, for an operation that may need a new producer id."""

        def decided(result: Message | KafkaError | None) -> None:
            if isinstance(result, NeedsProducerId):
                self._allocate_id(on_id)
            else:
                done(result)

        def on_id(given: int | KafkaError) -> None:
            if isinstance(given, KafkaError):
                done(given)
            else:
                self.write(
                    transactional_id, lambda machine, at: operation(machine, given, at), done
                )

        self.write(transactional_id, lambda machine, at: operation(machine, None, at), decided)

    def write_behind_end(
        self, transactional_id: str, operation: Operation[TransactionMachine], done: Done
    ) -> None:
        """Write the beginning of a transaction as `write` does. If the producer's earlier transaction is
        still being ended, wait for that for a while: most often it takes milliseconds."""
        ports = self._ports

        def decided(result: Message | KafkaError | None) -> None:
            if (
                not isinstance(result, KafkaError)
                or result.code != ErrorCode.CONCURRENT_TRANSACTIONS
            ):
                done(result)
                return
            wait = _Wait(lambda: self.write(transactional_id, operation, done))
            self._waits.setdefault(transactional_id, []).append(wait)
            wait.late = ports.wakeups.call_at(
                ports.clock.now_ms() + self._patience_ms,
                partial(self._on_late, transactional_id, wait),
            )

        self.write(transactional_id, operation, decided)

    def _on_late(self, transactional_id: str, wait: _Wait) -> None:
        waits = self._waits.get(transactional_id, [])
        if wait in waits:
            waits.remove(wait)
            if not waits:
                del self._waits[transactional_id]
            wait.end()

    def perform(self, shard: CoordinatorShard[TransactionMachine], effect: Any) -> None:
        """Carry out an effect of a shard's machine."""
        if isinstance(effect, SendMarkers):
            self.markers.add(shard.partition, shard.leader_epoch, effect)
        elif isinstance(effect, Completed):
            call_all(wait.end for wait in self._waits.pop(effect.transactional_id, []))
        else:
            assert isinstance(effect, GetProducerId)
            self._abort_with_id(shard.partition, effect.transactional_id)

    def _abort_with_id(self, partition: int, transactional_id: str) -> None:
        def on_id(given: int | KafkaError) -> None:
            if not isinstance(given, KafkaError):  # else the next look finds it again
                self.write_in(
                    partition,
                    lambda machine, at: machine.abort_overdue(transactional_id, given, at),
                )

        self._allocate_id(on_id)

    def on_unloaded(self, partition: int) -> None:
        """The shard of `partition` ended."""
        self.markers.cancel(partition)
        here = [name for name in self._waits if self.partition_for(name) == partition]
        call_all(wait.end for name in here for wait in self._waits.pop(name))
