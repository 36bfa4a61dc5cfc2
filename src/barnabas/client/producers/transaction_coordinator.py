"""The requests of one transactional id to its coordinator: take an identity, add partitions and groups, end.

Each is repeated until the coordinator has done it, or refuses it for good by a `KafkaError`. Where no
coordinator answers in time, it is a `ChannelError`.

Source: KIP-98, KIP-360 (an identity is continued), KIP-939 (two phases).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.client.client import (
    API_TIMEOUT_MS,
    ATTEMPT_TIMEOUT_MS,
    TRANSACTION,
    Client,
    raise_worst,
)
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from barnabas.wire.messages.end_txn_request import EndTxnRequest
from barnabas.wire.messages.end_txn_response import EndTxnResponse
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.wire.schema import Message

ADD_BY_CLIENTS = 3
"""The last version of AddPartitionsToTxn that clients speak."""
END_BEFORE_IMPLICIT = 4
"""The last version of EndTxn that keeps the producer's epoch, by which a repeated request is known."""
PURPOSE = "transactions"
NO_TIMEOUT_MS = 2**31 - 1


class ProducerIdentity(NamedTuple):
    """Who writes: brokers tell duplicates by it, coordinators tell producers apart."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = ProducerIdentity(-1, -1)


class TransactionCoordinator:
    """Asks the coordinator of one transactional id."""

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        timeout_ms: float = API_TIMEOUT_MS,
        attempt_timeout_ms: float = ATTEMPT_TIMEOUT_MS,
    ) -> None:
        self.transactional_id = transactional_id
        self._client = client
        self._timeout_ms = timeout_ms
        self._attempt_timeout_ms = attempt_timeout_ms

    def __repr__(self) -> str:
        return f"TransactionCoordinator({self.transactional_id})"

    async def take_identity(
        self,
        continued: ProducerIdentity = NO_PRODUCER,
        *,
        transaction_timeout_ms: int,
        two_phase: bool = False,
        at_most: int | None = None,
    ) -> ProducerIdentity:
        """Take a new epoch, which fences every other producer of the id and ends what it left open. With
        `continued` only if the id is still that of this identity. A transaction of `two_phase` has no
        time-out; the client has to speak InitProducerId 6."""
        answer: InitProducerIdResponse = await self._ask(
            lambda: InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                producer_id=continued.producer_id,
                producer_epoch=continued.producer_epoch,
                enable2_pc=two_phase,
            ),
            _code,
            at_most,
        )
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    async def add_partitions(
        self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> None:
        """Add partitions to the transaction, as batches do from transaction.version 2 on."""
        topics = by_topic(partitions)
        wanted = sum(map(len, topics.values()))
        await self._ask(
            lambda: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                    for topic, indexes in topics.items()
                ],
            ),
            lambda answer: _codes_of_added(answer, wanted),
            ADD_BY_CLIENTS,
            "adding partitions to the transaction",
        )

    async def add_group(self, identity: ProducerIdentity, group_id: str) -> None:
        """Add the offsets of a group to the transaction."""
        await self._ask(
            lambda: AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                group_id=group_id,
            ),
            _code,
            None,
        )

    async def end(
        self, identity: ProducerIdentity, *, commit: bool, at_most: int | None = None
    ) -> EndTxnResponse:
        """Commit or abort. Again, where that is done, changes nothing as long as the id is not used again and
        `at_most` is the same. From version 5 on the answer has the identity of the next transaction."""
        response: EndTxnResponse = await self._ask(
            lambda: EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                committed=commit,
            ),
            _code,
            at_most,
        )
        return response

    async def _ask(
        self,
        request: Callable[[], Message],
        codes_of: Callable[[Any], Iterable[int]],
        at_most: int | None,
        what: str = "",
    ) -> Any:
        what = what or f"transactional id {self.transactional_id}"
        return await self._client.ask_coordinator(
            TRANSACTION,
            self.transactional_id,
            request,
            lambda answer: raise_worst(codes_of(answer), what),
            timeout_ms=self._timeout_ms,
            attempt_timeout_ms=self._attempt_timeout_ms,
            purpose=PURPOSE,
            at_most=at_most,
        )


def _code(response: Any) -> Iterator[int]:
    yield response.error_code


def _codes_of_added(response: AddPartitionsToTxnResponse, wanted: int) -> list[int]:
    """A partition that the answer leaves out is asked for again."""
    codes = [
        result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    return codes if len(codes) >= wanted else [*codes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
