"""Exactly once by transactions of tasks: they write their rows, and the driver's token says which count.

Owns the driver's part of such a batch. It continues as the producer that has begun the batch. Its token lists
the transactions of the tasks that Spark chose, and each of them is committed behind it. Those of attempts
that Spark gave up are aborted.

Decision record: docs/decisions on tasks that write in transactions of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.client.network.connection import ChannelError
from barnabas.client.producers.transaction_coordinator import NO_PRODUCER
from barnabas.pipeline.errors import (
    ClusterUnreachableError,
    LedgerError,
    PipelineError,
    WriteRefusedError,
)
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write.by_driver import BatchCommit
from barnabas.pipeline.write.delivery import BatchDelivery
from barnabas.pipeline.write.prepared.participants import BatchBegun
from barnabas.pipeline.write.prepared.recovery import (
    abort_batch,
    abort_tasks,
    commit_listed,
    sweep,
)
from barnabas.pipeline.write.prepared.task import write_in_transaction
from barnabas.pipeline.write.publisher import FencedError, Outgoing
from barnabas.pipeline.write.staged_task import StagedTask
from barnabas.pipeline.write.tokens import PARTICIPANTS_MAX, Token
from barnabas.pipeline.write.transaction import DriverTransaction
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    import pyarrow as pa


class ByTasks(BatchDelivery):
    """The rows of a batch in open transactions of its tasks, which the driver ends."""

    def __init__(self, options: SinkOptions, begun: BatchBegun) -> None:
        super().__init__(options)
        self.begun = begun

    def write(self, rows: Iterator[pa.RecordBatch]) -> StagedTask:
        return write_in_transaction(self.options, self.begun, rows)

    def commit(self, tasks: Sequence[StagedTask], number: int | None) -> int:
        """Raises `LedgerError` where the token is of something else, `WriteRefusedError`."""
        assert number is not None  # a write without a name has no transactions of tasks
        commit = TokenOfTasks(self.options, tasks, number, self.begun)
        if any(task.begun != self.begun for task in tasks) or self.begun.key != commit.key:
            raise LedgerError(
                f"the tasks of batch {number} of {tasks[0].application} were begun by several drivers"
            )
        return commit.run()

    def abort(self, messages: Sequence[StagedTask | None], number: int | None) -> None:
        super().abort(messages, number)
        abort_batch(self.options, self.begun)


class TokenOfTasks(BatchCommit):
    """The commit of a batch whose tasks have transactions."""

    def __init__(
        self, options: SinkOptions, messages: Sequence[StagedTask], number: int, begun: BatchBegun
    ) -> None:
        super().__init__(options, messages, number)
        self._begun = begun

    def _begin(self, transaction: DriverTransaction) -> None:
        """Begin as the driver that has begun the batch, and as no other."""
        if transaction.identity == NO_PRODUCER:
            transaction.identity = (
                self._begun.identity
            )  # no other has it, so that a newer driver shows
            return
        try:
            transaction.renew()
        except FencedError as error:
            self._give_up()
            raise WriteRefusedError(self._fenced(error)) from error

    def _look(self, transaction: DriverTransaction) -> None:
        """Nothing is left: the transactions that the token lists were ended when the batch began."""

    def _token(self, outgoing: Sequence[Outgoing]) -> tuple[Token, Outgoing]:
        if len(self._participants) > PARTICIPANTS_MAX:
            raise WriteRefusedError(
                f"{len(self._participants)} tasks have transactions of their own, and a token lists at most"
                f" {PARTICIPANTS_MAX}: write with fewer tasks (coalesce), or taskTransactions=never"
            )
        return super()._token(outgoing)

    def _give_up(self) -> None:
        """The batch is not written, or was before, by other transactions."""
        if not self._is_undecided:
            found = self._found.participants if self._found is not None else ()
            left = [task for task in self._participants if task not in found]
            abort_tasks(self._cluster, self.key, left)

    def _end(self, transaction: DriverTransaction) -> None:
        """The token counts, and the transactions of tasks with it. Those of attempts that Spark gave up do
        not."""
        if not self._participants or self._counted is None:
            return
        listed = self._counted.participants
        try:
            commit_listed(self._options, self.key, listed)
        except ClusterUnreachableError as error:
            raise ClusterUnreachableError(
                f"{self._asked} is committed, and the transactions of its tasks are not all ended: {error}."
                " The query ends them when it is started again"
            ) from error
        with suppress(KafkaError, ChannelError, PipelineError):
            sweep(self._cluster, transaction, listed)
