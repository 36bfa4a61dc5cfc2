"""A transactional producer: commits or aborts its records and consumed offsets as one.

Sends the requests to the transaction coordinator; a :class:`~barnabas.client.producers.producer.Producer`
sends the batches. `init` fences every earlier producer of the same transactional id and aborts its open
transaction. After an error that is not fatal, the caller aborts the transaction and begins the next one.

Up to transaction.version 1, partitions and groups are added to the transaction by requests of their own, and
a new epoch is requested only after a batch was lost. From 2 on, every end of a transaction brings a new epoch
(KIP-890). `init` looks up the cluster's level, and so does an abort.

Source: KIP-98, KIP-360, KIP-447, KIP-890; ``TransactionManager`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple, TypeVar

from barnabas.client.client import GROUP, Client, raise_worst
from barnabas.client.feature_levels import describe_features
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import CommittedOffset, GroupIdentity, learn_id, topics_of
from barnabas.client.producers.producer import Producer
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.producers.transaction_coordinator import (
    END_BEFORE_IMPLICIT,
    NO_PRODUCER,
    NO_TIMEOUT_MS,
    ProducerIdentity,
    TransactionCoordinator,
)
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.client.transactions import ClientTransaction
from barnabas.metadata.features import TRANSACTION_VERSION
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

T = TypeVar("T")

IMPLICIT_SINCE = 2
"""The level of transaction.version from which on batches add their partitions."""
OFFSETS_BEFORE_IMPLICIT = 4
TIMEOUT_MS = 60_000
FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)
"""Errors of the coordinator after which this producer cannot be used: another one has its id, or the id is
refused."""


class PreparedTransaction(NamedTuple):
    """An open transaction whose writes are acknowledged."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


async def end_prepared(
    client: Client, prepared: PreparedTransaction, *, commit: bool, at_most: int | None = None
) -> None:
    """Commit or abort a prepared transaction; again, where that is done, changes nothing as long as its id is
    not used again and `at_most`, the newest version of EndTxn, is the same. Raises `KafkaError`:
    PRODUCER_FENCED, INVALID_TXN_STATE, ..., and `ChannelError`."""
    coordinator = TransactionCoordinator(client, prepared.transactional_id)
    identity = ProducerIdentity(prepared.producer_id, prepared.producer_epoch)
    await coordinator.end(identity, commit=commit, at_most=at_most)


class TransactionalProducer:
    """Call `init` once; then for each transaction `begin`, `send` and `send_offsets`, `commit` or `abort`."""

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        settings: ProducerSettings | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        two_phase: bool = False,
    ) -> None:
        """A transaction that takes longer than `timeout_ms` is aborted by its coordinator. With
        `two_phase` it has no time-out (KIP-939); `client` has to speak InitProducerId 6."""
        self.transactional_id = transactional_id
        self.fatal: KafkaError | None = None
        """The error after which this producer cannot be used any more."""
        self._client = client
        self._timeout_ms = NO_TIMEOUT_MS if two_phase else timeout_ms
        self._two_phase = two_phase
        self._transaction = ClientTransaction(transactional_id, self._on_wanted)
        self._producer = Producer(client, settings, self._transaction)
        self._coordinator = TransactionCoordinator(client, transactional_id)
        self._identity = NO_PRODUCER
        self._adding = False
        self._ending: bool | None = None
        """Whether a commit (True) or an abort was requested that was not answered: its outcome is unknown."""

    def __repr__(self) -> str:
        producer_id, epoch = self._identity
        return f"TransactionalProducer({self._transaction!r} id={producer_id}/{epoch})"

    async def init(self) -> None:
        """Get the transactional id's producer id and a new epoch, which fences other producers. Raises
        `KafkaError`, `ChannelError`."""
        await self._look_up_level()
        await self._take_identity(NO_PRODUCER)

    def begin(self) -> None:
        """Begin a transaction. Raises `KafkaError` if one is open, or `init` failed or was not called."""
        self._check_usable()
        if self._transaction.is_open:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "a transaction is open already")
        self._transaction.begin()

    def send(self, record: ProducerRecord) -> TaskOutcome[Delivery]:
        """Send as `Producer.send` does; the record counts once the transaction is committed."""
        return self._producer.send(record)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], who: GroupIdentity
    ) -> None:
        """Commit the consumed offsets of group member `who` with the transaction (the next offset to read, by
        partition). Raises `KafkaError`, `ChannelError`; then the transaction can only be aborted."""
        self._check_open()
        try:
            if not self._transaction.implicit:
                await self._add_group(who.group_id)
            self._transaction.with_offsets = True
            await self._commit_offsets(offsets, who)
        except (KafkaError, ChannelError) as error:
            self._transaction.on_failed(error, sent=False)
            raise

    async def commit(self) -> None:
        """Flush and commit. Raises the error of a batch; then the transaction can only be aborted. After a
        `ChannelError` the outcome is unknown: call `commit` again."""
        if self._ending is not True:
            self._check_open()
            await self._producer.flush()
            self._check_open()
        await self._end(committed=True)

    async def prepare(self) -> PreparedTransaction:
        """Flush, and hand the transaction over to `end_prepared`, of any client. Raises as `commit`."""
        self._check_open()
        await self._producer.flush()
        self._check_open()
        return PreparedTransaction(self.transactional_id, *self._identity)

    async def abort(self) -> None:
        """Abort the transaction. Raises `KafkaError`, also if the outcome of a commit is unknown."""
        self._check_usable()
        if self._ending is True:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                "the outcome of the commit is unknown: call commit again",
            )
        if not self._transaction.is_open:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction was begun")
        aborted = KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction is aborted")
        self._transaction.on_failed(aborted, sent=False)
        self._producer.fail_idle(aborted)
        await self._producer.flush()
        has_gap, was_implicit = self._transaction.has_gap, self._transaction.implicit
        await self._end(committed=False)
        await self._look_up_level()
        rises = self._transaction.implicit and not was_implicit
        # From version 2 on nothing waits for the marker of the last transaction: it must have another epoch.
        if rises or (has_gap and not was_implicit):
            await self._take_identity(self._identity)

    async def close(self) -> None:
        """Abort an open transaction and close the producer."""
        if self._transaction.is_open and self._ending is None and self.fatal is None:
            await self.abort()
        await self._producer.close()

    # -- the coordinator -------------------------------------------------------------------------

    async def _look_up_level(self) -> None:
        found = await describe_features(self._client)
        feature = found.features.get(TRANSACTION_VERSION)
        self._transaction.implicit = feature is not None and feature.level >= IMPLICIT_SINCE

    async def _take_identity(self, continued: ProducerIdentity) -> None:
        taken = await self._asked(
            self._coordinator.take_identity(
                continued, transaction_timeout_ms=self._timeout_ms, two_phase=self._two_phase
            )
        )
        self._set_identity(taken)

    async def _end(self, *, committed: bool) -> None:
        if not self._transaction.is_empty:
            self._ending = committed
            try:
                at_most = None if self._transaction.implicit else END_BEFORE_IMPLICIT
                response = await self._asked(
                    self._coordinator.end(self._identity, commit=committed, at_most=at_most)
                )
            except KafkaError as error:
                self._ending = None
                self._transaction.on_failed(error, sent=False)
                raise
            self._ending = None
            if response.producer_id >= 0:
                self._set_identity(ProducerIdentity(response.producer_id, response.producer_epoch))
        self._transaction.end()

    def _set_identity(self, identity: ProducerIdentity) -> None:
        self._identity = identity
        self._producer.take_identity(*identity)

    async def _asked(self, question: Awaitable[T]) -> T:
        """The coordinator's answer. An error after which this producer cannot be used is kept."""
        try:
            return await question
        except KafkaError as error:
            if error.code in FATAL:
                self.fatal = error
            raise

    def _check_usable(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        if self._identity == NO_PRODUCER:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the producer is not initialized")

    def _check_open(self) -> None:
        self._check_usable()
        if self._transaction.refusal is not None:
            raise self._transaction.refusal

    # -- level 1 ---------------------------------------------------------------------------------

    def _on_wanted(self) -> None:
        if not self._adding:
            self._adding = True
            self._client.tasks.start(self._add_partitions())

    async def _add_partitions(self) -> None:
        """Add the wanted partitions to the transaction, until none is left."""
        transaction = self._transaction
        try:
            while transaction.wanted and transaction.is_open:
                wanted = list(transaction.wanted)
                # From the request on they may be in the transaction, also if it fails (see below).
                await self._asked(self._coordinator.add_partitions(self._identity, wanted))
                for partition in wanted:
                    transaction.wanted.pop(partition, None)
                    transaction.partitions.add(partition)
        except (KafkaError, ChannelError) as error:
            transaction.partitions.update(transaction.wanted)
            transaction.on_failed(error, sent=False)
            self._producer.fail_idle(error)
        finally:
            self._adding = False
            self._producer.wakeup()

    async def _add_group(self, group_id: str) -> None:
        self._transaction.with_offsets = True
        await self._asked(self._coordinator.add_group(self._identity, group_id))

    # -- offsets ---------------------------------------------------------------------------------

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], who: GroupIdentity
    ) -> None:
        client = self._client
        await client.cluster.ensure(topics_of(offsets))
        topics = by_topic(
            (
                tp.topic,
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                ),
            )
            for tp, committed in offsets.items()
        )

        def request() -> TxnOffsetCommitRequest:
            return TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=who.group_id,
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.producer_epoch,
                generation_id_or_member_epoch=who.generation,
                member_id=who.member_id,
                group_instance_id=who.instance_id,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name=name, topic_id=client.cluster.topic_id(name), partitions=parts
                    )
                    for name, parts in topics.items()
                ],
            )

        def check(response: Any) -> None:
            codes = [part.error_code for topic in response.topics for part in topic.partitions]
            if len(codes) < len(offsets):
                codes.append(ErrorCode.UNKNOWN_TOPIC_ID)
            for code in codes:
                learn_id(client, code, list(topics))
            raise_worst(codes, "committing offsets in the transaction")

        await client.ask_coordinator(
            GROUP,
            who.group_id,
            request,
            check,
            at_most=None if self._transaction.implicit else OFFSETS_BEFORE_IMPLICIT,
        )
