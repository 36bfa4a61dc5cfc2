"""Transactions as an administrator sees them: listed, described, found hanging, aborted.

A transaction hangs where a partition has it open and no coordinator will end it: readers of committed
records wait at its first offset for ever. `find_hanging` compares what the partitions' leaders have open with
what the coordinators know; `abort_transaction` has an abort marker written in one partition.

Source: KIP-664; ``TransactionsCommand`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.client.client import TRANSACTION, Client, raise_for
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from barnabas.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.wire.messages.list_transactions_request import ListTransactionsRequest
from barnabas.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

PARTITIONS_AT_ONCE = 500
"""In one DescribeProducers."""


class TransactionListing(NamedTuple):
    """`coordinator` is a broker."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionFilter(NamedTuple):
    """All that are empty let everything pass."""

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    longer_than_ms: int = -1
    """Only those that are under way for longer."""
    pattern: str | None = None
    """A regular expression that the whole transactional id matches."""


EVERY_TRANSACTION = TransactionFilter()


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """`started_ms` is a date, -1 where none is under way; `partitions` are those without a marker yet."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class ProducerView(NamedTuple):
    """A producer as a replica knows it; -1 where there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that no coordinator will end."""

    partition: TopicPartition
    producer: ProducerView
    silent_ms: int
    """Since its last record."""
    reason: str
    transactional_id: str | None = None


async def list_transactions(
    client: Client, wanted: TransactionFilter = EVERY_TRANSACTION
) -> list[TransactionListing]:
    """The transactions of all coordinators, by transactional id. Raises INVALID_REQUEST where a state is
    none."""

    async def of(node: int) -> list[TransactionListing]:
        response = await client.ask_node(
            node,
            ListTransactionsRequest(
                state_filters=wanted.states,
                producer_id_filters=wanted.producer_ids,
                duration_filter=wanted.longer_than_ms,
                transactional_id_pattern=wanted.pattern,
            ),
        )
        raise_for(response.error_code)
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no state {unknown}")
        return [
            TransactionListing(t.transactional_id, node, t.producer_id, t.transaction_state)
            for t in response.transaction_states
        ]

    async def attempt() -> list[list[TransactionListing]]:
        await client.cluster.refresh()
        return await client.tasks.gather([of(node) for node in sorted(client.cluster.brokers)])

    found = await client.retry(attempt)
    return sorted(listing for listings in found for listing in listings)


async def describe_transaction(client: Client, transactional_id: str) -> TransactionDescription:
    """Raises `KafkaError`: TRANSACTIONAL_ID_NOT_FOUND, ..."""

    def check(response: Any) -> None:
        for result in response.transaction_states:
            raise_for(result.error_code, f"transactional id {transactional_id}")

    response = await client.ask_coordinator(
        TRANSACTION,
        transactional_id,
        lambda: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        check,
    )
    [result] = response.transaction_states
    return TransactionDescription(
        result.transactional_id,
        result.transaction_state,
        result.producer_id,
        result.producer_epoch,
        result.transaction_timeout_ms,
        result.transaction_start_time_ms,
        tuple(
            sorted(
                TopicPartition(topic.topic, index)
                for topic in result.topics
                for index in topic.partitions
            )
        ),
    )


async def describe_producers(
    client: Client, partitions: Iterable[TopicPartition], *, broker: int | None = None
) -> dict[TopicPartition, list[ProducerView]]:
    """The producers that each partition's leader knows, or its replica on `broker`."""
    found: dict[TopicPartition, list[ProducerView]] = {}
    wanted = list(partitions)

    async def ask(node: int, some: Sequence[TopicPartition]) -> None:
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(some).items()
            ]
        )
        response = await client.ask_node(node, request)
        failure: KafkaError | None = None
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    failure = KafkaError(code_of(partition.error_code), f"{tp} at broker {node}")
                else:
                    found[tp] = [_producer_of(producer) for producer in partition.active_producers]
        if failure is not None:
            raise failure

    async def attempt() -> None:
        left = [tp for tp in wanted if tp not in found]
        await client.cluster.refresh(dict.fromkeys(tp.topic for tp in left))
        by_node = _by_node(client, left, broker)
        for node in sorted(by_node):
            some = by_node[node]
            for at in range(0, len(some), PARTITIONS_AT_ONCE):
                await ask(node, some[at : at + PARTITIONS_AT_ONCE])

    if wanted:
        await client.retry(attempt)
    return {tp: found[tp] for tp in wanted}


async def abort_transaction(
    client: Client, partition: TopicPartition, producer: ProducerView
) -> None:
    """Have an abort marker written for the producer's open transaction in `partition`. Raises
    `KafkaError`."""

    async def attempt() -> None:
        await client.cluster.refresh([partition.topic])
        [(node, _)] = _by_node(client, [partition], None).items()
        topic = WritableTxnMarkerTopic(
            name=partition.topic, partition_indexes=[partition.partition]
        )
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            # No marker yet: no coordinator is older than 0.
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            topics=[topic],
        )
        response = await client.ask_node(node, WriteTxnMarkersRequest(markers=[marker]))
        for result in response.markers:
            for marked in result.topics:
                for answer in marked.partitions:
                    raise_for(answer.error_code, f"{partition} at broker {node}")

    await client.retry(attempt)


async def find_hanging(
    client: Client,
    partitions: Iterable[TopicPartition],
    *,
    silent_ms_min: int,
    wall_ms: int,
    broker: int | None = None,
) -> list[HangingTransaction]:
    """Transactions of `partitions` that were silent for longer than the longest that any may take, and that
    no coordinator knows of."""
    open_ones = [
        (tp, producer)
        for tp, producers in (await describe_producers(client, partitions, broker=broker)).items()
        for producer in producers
        if producer.transaction_start >= 0 and wall_ms - producer.last_timestamp > silent_ms_min
    ]
    if not open_ones:
        return []
    ids = sorted({producer.producer_id for _, producer in open_ones})
    listings = await list_transactions(client, TransactionFilter(producer_ids=ids))
    names = {listing.producer_id: listing.transactional_id for listing in listings}
    known = {name: await _described(client, name) for name in sorted(names.values())}
    return [
        HangingTransaction(
            tp, producer, wall_ms - producer.last_timestamp, reason, names.get(producer.producer_id)
        )
        for tp, producer in open_ones
        if (reason := _why_hanging(tp, producer, names, known)) is not None
    ]


async def _described(client: Client, transactional_id: str) -> TransactionDescription | None:
    try:
        return await describe_transaction(client, transactional_id)
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return None


def _why_hanging(
    partition: TopicPartition,
    producer: ProducerView,
    names: Mapping[int, str],
    known: Mapping[str, TransactionDescription | None],
) -> str | None:
    """None where its coordinator will end it."""
    name = names.get(producer.producer_id)
    if name is None:
        return f"no transactional id has producer id {producer.producer_id}"
    described = known[name]
    if described is None:
        return f"its coordinator has forgotten transactional id {name}"
    if partition in described.partitions:
        return None
    return (
        f"the coordinator of {name} is in state {described.state} and the partition is not in its"
        " transaction"
    )


def _by_node(
    client: Client, partitions: Iterable[TopicPartition], broker: int | None
) -> dict[int, list[TopicPartition]]:
    by_node: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        client.cluster.require(tp.topic)
        node = client.cluster.leader(tp) if broker is None else broker
        if node is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} has no leader")
        by_node.setdefault(node, []).append(tp)
    return by_node


def _producer_of(answer: Any) -> ProducerView:
    return ProducerView(
        answer.producer_id,
        answer.producer_epoch,
        answer.last_sequence,
        answer.last_timestamp,
        answer.coordinator_epoch,
        answer.current_txn_start_offset,
    )
