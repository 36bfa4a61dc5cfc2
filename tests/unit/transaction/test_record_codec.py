"""Records of ``__transaction_state``: what is written is read, in both versions."""

from __future__ import annotations

import pytest

from barnabas.transaction.record_codec import TransactionRecord, decode_record, encode_record
from barnabas.transaction.states import MAY_COME_FROM, TransactionState, check_move
from barnabas.transaction.transaction import Transaction
from barnabas.types import TopicPartition
from barnabas.wire.codec import MalformedError

ENDING = Transaction(
    7, 3, 60_000, TransactionState.PREPARE_COMMIT,
    {TopicPartition("t", 1): None, TopicPartition("t", 0): None, TopicPartition("u", 2): None},
    5_000, 6_000, previous_producer_id=6, next_producer_id=8, last_epoch=2, client_version=2,
)  # fmt: skip


def test_version_1_keeps_all_but_the_last_epoch() -> None:
    read = decode_record(*encode_record(TransactionRecord("x", ENDING, 1)))
    assert read == TransactionRecord("x", ENDING._replace(last_epoch=-1), 1)


def test_version_0_has_no_other_producer_ids() -> None:
    read = decode_record(*encode_record(TransactionRecord("x", ENDING, 0)))
    plain = ENDING._replace(
        last_epoch=-1, previous_producer_id=-1, next_producer_id=-1, client_version=0
    )
    assert read == TransactionRecord("x", plain, 0)


def test_the_bytes_are_those_of_apache_kafka() -> None:
    """Key and value as ``TransactionLog`` of 4.3.0 writes them."""
    key, value = encode_record(TransactionRecord("x", ENDING, 0))
    assert key.hex() == "0000" + "0001" + "78"
    assert value is not None
    assert value.hex() == (
        "0000" + "0000000000000007" + "0003" + "0000ea60" + "02"
        + "00000002" + "0001" + "74" + "00000002" + "00000001" + "00000000"
        + "0001" + "75" + "00000001" + "00000002"
        + "0000000000001770" + "0000000000001388"
    )  # fmt: skip


def test_an_empty_transaction_has_no_list_of_partitions() -> None:
    _, value = encode_record(TransactionRecord("x", Transaction(7, 0, 1), 0))
    assert value is not None and value[2 + 8 + 2 + 4 + 1 :][:4] == b"\xff" * 4


def test_a_tombstone_names_the_id() -> None:
    key, value = encode_record(TransactionRecord("x", None))
    assert value is None
    assert decode_record(key, None) == TransactionRecord("x", None)


def test_types_and_versions_of_a_later_kafka_are_skipped() -> None:
    key, value = encode_record(TransactionRecord("x", ENDING, 0))
    assert value is not None
    assert decode_record(b"\0\x09" + key[2:], value) is None
    assert decode_record(key, b"\0\x09" + value[2:]) is None


@pytest.mark.parametrize("size", [0, 1, 2, 10])
def test_damaged_records_are_malformed(size: int) -> None:
    key, value = encode_record(TransactionRecord("x", ENDING, 0))
    assert value is not None
    with pytest.raises(MalformedError):
        decode_record(key, value[:size])
    with pytest.raises(MalformedError):
        decode_record(None, value)


def test_an_unknown_state_is_malformed() -> None:
    key, value = encode_record(TransactionRecord("x", ENDING, 0))
    assert value is not None
    with pytest.raises(MalformedError):
        decode_record(key, value[:16] + b"\x09" + value[17:])


def test_every_move_of_the_table_is_allowed_and_no_other() -> None:
    for after in TransactionState:
        for before in TransactionState:
            if before in MAY_COME_FROM[after]:
                check_move(before, after)
            else:
                with pytest.raises(AssertionError):
                    check_move(before, after)
