"""The records of ``__transaction_state``: a key (type int16, body) and a value (version int16, body).

A value of None is a tombstone: the transactional id expired. Records of unknown types decode to None and are
skipped. Version 0 of the value, which ``transaction.version`` 0 writes, has no previous and next producer id
and no client version.

Source: ``TransactionLog`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from barnabas.transaction.records.transaction_log_key import TransactionLogKey
from barnabas.transaction.records.transaction_log_value import PartitionsSchema, TransactionLogValue
from barnabas.transaction.states import TransactionState
from barnabas.transaction.transaction import Transaction
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.codec import MalformedError, decode, encode_bytes

_INT16 = Struct(">h")
KEY_VERSION = 0
TAGS_SINCE = 1
"""The level of ``transaction.version`` from which on version 1 of the value is written."""


class TransactionRecord(NamedTuple):
    """One record; `version` is that of the value."""

    transactional_id: str
    transaction: Transaction | None
    version: int = TAGS_SINCE


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Key and value of the record in the log."""
    body = encode_bytes(TransactionLogKey(transactional_id=record.transactional_id), KEY_VERSION)
    key = _INT16.pack(TransactionLogKey.API_KEY) + body
    if record.transaction is None:
        return key, None
    value = encode_bytes(_value_of(record.transaction, record.version), record.version)
    return key, _INT16.pack(record.version) + value


def decode_record(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """Decode a record; None for an unknown type. Raises ``ValueError`` if it is malformed."""
    if key is None or len(key) < 2:
        raise MalformedError("a record of the transaction topic has no key")
    if _INT16.unpack_from(key)[0] != TransactionLogKey.API_KEY:
        return None
    transactional_id = decode(TransactionLogKey, KEY_VERSION, key[2:]).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    if len(value) < 2:
        raise MalformedError("a value of the transaction topic has no version")
    version = _INT16.unpack_from(value)[0]
    low, high = TransactionLogValue.VALID
    if not low <= version <= high:
        return None  # of a later Kafka
    read = decode(TransactionLogValue, version, value[2:])
    return TransactionRecord(transactional_id, _transaction_of(read), version)


def _value_of(transaction: Transaction, version: int) -> TransactionLogValue:
    tagged: dict[str, int] = {}
    if version >= TAGS_SINCE:
        tagged = {
            "previous_producer_id": transaction.previous_producer_id,
            "next_producer_id": transaction.next_producer_id,
            "client_transaction_version": transaction.client_version,
        }
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_topics_of(transaction),
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        **tagged,
    )


def _topics_of(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    topics = by_topic(transaction.partitions)
    return [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in topics.items()]


def _transaction_of(value: TransactionLogValue) -> Transaction:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        raise MalformedError(f"no transaction has the state {value.transaction_status}") from error
    partitions = {
        TopicPartition(topic.topic, partition): None
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    }
    return Transaction(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def describe_record(
    key: bytes, value: bytes | None
) -> tuple[TransactionLogKey, TransactionLogValue | None] | None:
    """Key and value of a record as messages, for tools; None for an unknown type."""
    record = decode_record(key, value)
    if record is None:
        return None
    known = record.transaction
    return (
        TransactionLogKey(transactional_id=record.transactional_id),
        None if known is None else _value_of(known, record.version),
    )
