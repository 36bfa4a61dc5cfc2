"""Exactly once by a transaction of the driver: the rows of a batch and its token, together or not at all.

Owns the commit of one batch: fence (`DriverTransaction.begin`), read the query's token, compare it with what
is asked for (:mod:`barnabas.pipeline.write.admission`), write rows and token, end the transaction. Nothing
beside the cluster is needed to know what was written: a ledger that is lost, restored or copied changes
nothing. ``committed.json`` in the staging location only says that the query commits in this way, and from
which offset on its token is looked for.

States of a batch: *none* → *open* (rows under way, invisible to read_committed) → *committed* with its token,
or *aborted*, which leaves nothing binding: the batch may be computed again with other options.

Decision record: docs/decisions on pipelines that write in transactions.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.checkpoint import planned
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import (
    ClusterUnreachableError,
    LedgerError,
    StagingError,
    WriteRefusedError,
)
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.patience import Patience
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write import tokens
from barnabas.pipeline.write.admission import AdmissionRequest, admit
from barnabas.pipeline.write.commit_log import NOTHING, CommitEntry, CommitLog, Origin
from barnabas.pipeline.write.delivery import BatchDelivery
from barnabas.pipeline.write.prepared.recovery import PREFIX, end_left, transactional_id
from barnabas.pipeline.write.publisher import FencedError, IdentityLostError, Outgoing
from barnabas.pipeline.write.staged_task import (
    StagedTask,
    check_staged,
    discard,
    outgoing_of,
    stage,
    way_out,
)
from barnabas.pipeline.write.tokens import Token
from barnabas.pipeline.write.transaction import DriverTransaction
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

LOOK_BACK_MAX = 1_000
"""Offsets between where a token is looked for from and where it is, before that is kept again."""


class ByDriver(BatchDelivery):
    """The rows of a batch in one transaction of the driver, with the token that says so."""

    def write(self, rows: Iterator[pa.RecordBatch]) -> StagedTask:
        return stage(self.options, rows)

    def commit(self, tasks: Sequence[StagedTask], number: int | None) -> int:
        """Raises `LedgerError` where the token is of something else, `WriteRefusedError`."""
        if number is None:
            return publish_plainly(self.options, tasks)
        return BatchCommit(self.options, tasks, number).run()


def publish_plainly(options: SinkOptions, messages: Sequence[StagedTask]) -> int:
    """Publish a write that has no name, as a whole or not at all."""
    outgoing = outgoing_of(options, messages)
    if outgoing:
        cluster = options.cluster.connect()
        patience = Patience(cluster.patience_ms)
        transaction = DriverTransaction(cluster, options, PREFIX + uuid.uuid4().hex)
        while True:
            begin(transaction)
            try:
                transaction.write(outgoing)
                transaction.commit()
                break
            except IdentityLostError as error:
                transaction.abort()
                patience.wait(error)
            except BaseException:
                transaction.abort()
                raise
    discard(options, messages)
    return len(outgoing)


def begin(transaction: DriverTransaction) -> None:
    """Raises `WriteRefusedError` with a sentence where the driver may not."""
    try:
        transaction.begin()
    except ChannelError as error:
        if error.kind != "unsupported":
            raise
        raise WriteRefusedError(f"the cluster has no transactions: {error}") from error
    except (KafkaError, ClusterUnreachableError) as error:
        raise WriteRefusedError(
            f"no transaction of {transaction.transactional_id}: {error}. Without transactions the query"
            " writes with delivery=manifest"
        ) from error


class BatchCommit:
    """One batch of one application: begun, attempted until it counts or fails, and cleared away."""

    def __init__(self, options: SinkOptions, messages: Sequence[StagedTask], number: int) -> None:
        first = messages[0]
        self._participants = tuple(task.participant for task in messages if task.participant)
        self._is_undecided = False
        """The end of the token's transaction is asked for, and its answer not here."""
        self._found: Token | None = None
        """The token before."""
        self._counted: Token | None = None
        """The token, once it is committed."""
        self._options = options
        self._messages = messages
        self._ledger = (
            CommitLog(open_store(options.staging), first.application) if options.staging else None
        )
        self._cluster: ClusterClient = options.cluster.connect()
        self.key = transactional_id(options, first.application)
        self._origin = Origin(first.query, first.run, planned(options, first.query, number))
        self._asked = AdmissionRequest(
            number,
            self.key,
            options.staging or "",
            self._origin,
            options.new_ledger,
            bootstrap=",".join(map(str, options.cluster.bootstrap)),
        )

    def run(self) -> int:
        """Returns how many record batches this run sent."""
        patience = Patience(self._cluster.patience_ms)
        transaction = DriverTransaction(self._cluster, self._options, self.key)
        while True:
            self._begin(transaction)
            try:
                sent = self._attempt(transaction)
                break
            except IdentityLostError as error:
                transaction.abort()
                patience.wait(error)
            except FencedError as error:
                self._give_up()
                raise WriteRefusedError(self._fenced(error)) from error
            except (WriteRefusedError, ClusterUnreachableError, StagingError) as error:
                transaction.abort()
                self._give_up()
                said = str(error).removeprefix(f"{self._asked}: ")
                raise type(error)(
                    f"{self._asked}: {said}. The transaction is aborted. {way_out(self._asked)}"
                ) from error
            except BaseException:
                transaction.abort()
                self._give_up()
                raise
        self._end(transaction)
        return sent

    # -- what tasks with transactions of their own do otherwise ------------------------------------

    def _begin(self, transaction: DriverTransaction) -> None:
        """Begin, and fence every earlier driver."""
        begin(transaction)

    def _look(self, transaction: DriverTransaction) -> None:
        """The token before is known."""
        end_left(self._options, transaction, self._found)

    def _give_up(self) -> None:
        """The batch is not written, or was before."""

    def _end(self, transaction: DriverTransaction) -> None:
        """The batch counts."""

    # -- the attempt -------------------------------------------------------------------------------

    def _attempt(self, transaction: DriverTransaction) -> int:
        """Attempt to commit. A decision stays decided: `begin` has fenced all others."""
        tokens.ensure_topic(self._cluster)
        since = self._ledger.token_since(self.key) if self._ledger is not None else None
        found = self._found = tokens.read_tokens(
            self._cluster, self._options.cluster, key=self.key, since=since or 0
        ).get(self.key)
        self._look(transaction)
        committed = tokens.entry_of(found) if found is not None else self._before_tokens()
        answer = admit(self._asked, committed, None)
        if not answer.is_new:
            if answer.warning:
                log.warning("pipeline.batch_skipped: %s", answer.warning)
            self._clear(found, since)
            self._give_up()
            return 0
        if self._ledger is not None:
            check_staged(self._ledger, self._messages, self._asked)
        outgoing = outgoing_of(self._options, self._messages)
        if outgoing or self._participants or found is None:
            token, record = self._token(outgoing)
            transaction.write([*outgoing, record])
            self._is_undecided = True
            transaction.commit()
            self._is_undecided = False
            self._counted = token
        self._clear(found, since)
        return len(outgoing)

    def _before_tokens(self) -> CommitEntry:
        """The ledger's entry of a query that moves to transactions (``delivery=transactions``)."""
        if self._ledger is None or not self._ledger.is_in_use():
            return tokens.entry_of(None)
        committed = self._ledger.committed()
        begun = [number for number in self._ledger.numbers() if number > committed.batch]
        if begun:
            raise LedgerError(
                f"batch {begun[0]} of {self._asked.application} was begun by a manifest: run the query once"
                " with delivery=manifest, which ends it, before it moves to transactions"
            )
        return committed

    def _token(self, outgoing: Sequence[Outgoing]) -> tuple[Token, Outgoing]:
        rows = sum(batch.records for batch in outgoing) + sum(task.rows for task in self._messages)
        # An empty first batch leaves a token, so that a later batch finds that this was the first.
        number = self._asked.batch if outgoing or self._participants else NOTHING
        token = Token(number, self._origin, rows, participants=self._participants)
        data = token.record_batch(self.key)
        return token, Outgoing(tokens.PARTITION, 0, 1, len(data), lambda: bytearray(data))

    def _clear(self, found: Token | None, since: int | None) -> None:
        """Staged files are of no use any more, whether the batch was sent now or before."""
        if self._ledger is None:
            return
        self._ledger.clear(self._asked.batch)
        at = found.offset if found is not None else 0
        if since is None or at > since + LOOK_BACK_MAX:
            self._ledger.move_to_token(self.key, at)

    def _fenced(self, error: FencedError) -> str:
        return (
            f"{self._asked}: {error}. Another driver with transactional id {self.key} has begun, or the"
            f" transaction took longer than kafka.transaction.timeout.ms"
            f" ({self._options.transaction_timeout_ms}). The query knows what was written when it is"
            " started again; a copy that runs beside its original needs a kafka.transactional.id of its own"
        )
