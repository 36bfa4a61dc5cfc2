"""The driver's side of tasks' transactions: before a batch, behind its token, and after a failure.

Owns the order that keeps rows from being lost or counted twice:

1. Before a batch's tasks start, :func:`begin_batch` fences every earlier driver of the query, ends by commit
   what the token lists, and aborts every other open transaction of the query's tasks.
2. Tasks get the driver's producer id and epoch with the batch, and bring them back with their messages. The
   commit writes as that producer, so that it fails if another driver has done step 1 in between.
3. The token counts. Behind it each listed transaction is committed; the next batch starts only then.

A driver that was fenced may be in the middle of step 1. It aborts only transactions that it found open before
it was last known to be the newest driver (`DriverTransaction.renew`), by producer id and epoch: they are no
newer driver's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.checkpoint import query_beside
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import LedgerError, OptionError, PipelineError, WriteRefusedError
from barnabas.pipeline.options import ClusterOptions, SinkOptions
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write import tokens
from barnabas.pipeline.write.commit_log import CommitLog
from barnabas.pipeline.write.prepared.participants import (
    ALWAYS,
    NEVER,
    BatchBegun,
    Participant,
    end_all,
    list_open,
)
from barnabas.pipeline.write.tokens import Token
from barnabas.pipeline.write.transaction import DriverTransaction
from barnabas.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

PREFIX = "barnabas-"
PROBE = "0"
MOVED_ON = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Answers for an id whose process has used it again, or that has expired. Neither happens to a transaction
that a token lists before its commit is decided."""
_served: dict[tuple[ClusterOptions, str], str] = {}
"""The reason, by cluster and driver, why tasks cannot have transactions; empty where they can."""
_ended: dict[tuple[ClusterOptions, str], tuple[Participant, ...]] = {}
"""The participants, by cluster and driver, that this process has ended last, all of them."""
_begun_at: dict[tuple[ClusterOptions, str], tuple[int, float]] = {}
"""The token's offset, by cluster and driver, when this process last began a batch, and when (monotonic, in
seconds) it last looked what was open."""
_looked: set[tuple[ClusterOptions, str]] = set()
"""Clusters and drivers of which this process knows that a query without transactions of tasks left none."""
LOOK_S = 30.0
"""How long it begins batches without looking."""


def transactional_id(options: SinkOptions, application: str) -> str:
    return options.transactional_id or PREFIX + application


def begin_batch(options: SinkOptions, *, streaming: bool) -> BatchBegun | None:
    """Step 1; None where tasks have no transactions of their own. Raises `OptionError` where option
    ``taskTransactions`` demands them, `LedgerError`, `ClusterUnreachableError`."""
    if options.task_transactions == NEVER or options.delivery not in (
        "exactly-once",
        "transactions",
    ):
        return None
    application = options.application or (query_beside(options) if streaming else None)
    why = _why_not(options, application)
    if why:
        if options.task_transactions == ALWAYS:
            raise OptionError(f"taskTransactions=always is not possible: {why}")
        return None
    assert application is not None
    key = transactional_id(options, application)
    transaction = DriverTransaction(options.cluster.connect(), options, key)
    try:
        transaction.begin()
        recover(options, transaction, _since(options, application, key), is_next=True)
    except KafkaError as error:
        raise WriteRefusedError(f"no transaction of {key}: {error}") from error
    return BatchBegun(key, transaction.identity)


def _why_not(options: SinkOptions, application: str | None) -> str:
    if application is None:
        return (
            "the write has no name under which its transactions are found again. A stream needs a"
            " checkpointLocation that the driver's Python can read, a batch write txnAppId and txnVersion"
        )
    if options.staging is not None and options.delivery != "transactions":
        if CommitLog(open_store(options.staging), application).is_in_use():
            return f"{application} was begun by a manifest; delivery=transactions moves it to transactions"
    at = (options.cluster, transactional_id(options, application))
    if at not in _served:
        _served[at] = _probe(options, at[1])
    return _served[at]


def _probe(options: SinkOptions, key: str) -> str:
    """Ask for a producer id as a task does. Returns why there is none."""
    probe = DriverTransaction(options.cluster.connect(), options, f"{key}.{PROBE}", two_phase=True)
    try:
        probe.begin()
    except ChannelError as error:
        if error.kind != "unsupported":
            raise
        return "the brokers do not serve two-phase commit (InitProducerId 6, KIP-939)"
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return f"no producer id for {error}"
        return (
            "the brokers do not allow two-phase commit: transaction.two.phase.commit.enable is off, or"
            f" the user lacks WRITE and TWO_PHASE_COMMIT on transactional ids that begin with {key}."
        )
    return ""


def _since(options: SinkOptions, application: str, key: str) -> int:
    if options.staging is None:
        return 0
    return CommitLog(open_store(options.staging), application).token_since(key) or 0


def recover(
    options: SinkOptions, transaction: DriverTransaction, since: int = 0, *, is_next: bool = False
) -> Token | None:
    """`transaction` has begun: commit what the token lists, abort what else is open. Returns the token.

    `is_next`: a query begins a batch. Then nothing else can be open where the batch that this process has
    begun before is committed and had no transactions of tasks, and coordinators are asked now and then."""
    cluster = options.cluster.connect()
    key = transaction.transactional_id
    tokens.ensure_topic(cluster)
    found = tokens.read_tokens(cluster, options.cluster, key=key, since=since).get(key)
    listed = _commit_found(options, key, found)
    at = (options.cluster, key)
    offset = found.offset if found is not None else -1
    before, looked_s = _begun_at.get(at, (offset, 0.0))
    now_s = time.monotonic()
    if listed or not is_next or offset <= before or now_s > looked_s + LOOK_S:
        sweep(cluster, transaction, listed)
        looked_s = now_s
    _begun_at[at] = offset, looked_s
    return found


def _commit_found(options: SinkOptions, key: str, found: Token | None) -> tuple[Participant, ...]:
    """Commit what the token that was found lists, and return that."""
    listed = found.participants if found is not None else ()
    if listed and _ended.get((options.cluster, key)) != listed:
        codes = end_all(options.cluster.connect(), key, listed, commit=True)
        _check(
            key, {participant: code for participant, code in codes.items() if code not in MOVED_ON}
        )
        _ended[options.cluster, key] = listed
    return listed


def end_left(options: SinkOptions, transaction: DriverTransaction, found: Token | None) -> None:
    """The tasks of this query have no transactions. Those that it left when they had are ended as the token
    says, before another token takes its place: commit what it lists, abort what else is open. Raises
    `LedgerError`, `ClusterUnreachableError`, `FencedError`."""
    key = transaction.transactional_id
    listed = _commit_found(options, key, found)
    at = (options.cluster, key)
    if listed or at not in _looked:
        with suppress(
            KafkaError, ChannelError
        ):  # brokers that list no transactions have none of tasks
            sweep(options.cluster.connect(), transaction, listed)
        _looked.add(at)


def commit_listed(options: SinkOptions, key: str, listed: tuple[Participant, ...]) -> None:
    """Step 3, by the driver that wrote the token. Raises `LedgerError` where a transaction was ended from
    outside, `ClusterUnreachableError`."""
    _check(key, end_all(options.cluster.connect(), key, listed, commit=True))
    _ended[options.cluster, key] = listed


def _check(key: str, codes: dict[Participant, ErrorCode]) -> None:
    for participant, code in codes.items():
        if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise KafkaError(code, participant.name(key))
        if code is not ErrorCode.NONE:
            raise LedgerError(
                f"the transaction of a task, {participant.name(key)} with producer id"
                f" {participant.producer_id} and epoch {participant.producer_epoch}, cannot be"
                f" committed though the token of {key} lists it ({code.name}): something other"
                " than the query has aborted it, and its rows are lost."
                f" `barnabas pipeline ledger forget --from BATCH {key}` has the batch written again as a"
                " whole; what of it is in topics stays there"
            )


def sweep(
    cluster: ClusterClient, transaction: DriverTransaction, listed: Iterable[Participant]
) -> int:
    """Abort the open transactions of tasks that no token lists. Returns how many. Raises `FencedError`."""
    key = transaction.transactional_id
    counted = set(listed)
    left = [participant for participant in list_open(cluster, key) if participant not in counted]
    if left:
        transaction.renew()
        end_all(cluster, key, left, commit=False)
        log.info("pipeline.task_transactions_aborted: %d of %s", len(left), key)
    return len(left)


def abort_tasks(cluster: ClusterClient, key: str, participants: Iterable[Participant]) -> None:
    """Abort transactions that no token lists and none can list any more. What cannot be done now is done
    before the next batch."""
    with suppress(KafkaError, ChannelError, PipelineError):
        end_all(cluster, key, participants, commit=False)


def abort_batch(options: SinkOptions, begun: BatchBegun) -> None:
    """A batch has failed: end its transactions as the token says, unless a newer driver does that."""
    transaction = DriverTransaction(options.cluster.connect(), options, begun.key)
    with suppress(KafkaError, ChannelError, PipelineError):
        transaction.continue_as(begun.identity)
        transaction.renew()  # also where the first was a repetition: what is under way is fenced
        recover(options, transaction)
        return
    log.info("pipeline.task_transactions_left: of %s, for the next driver to end", begun.key)
