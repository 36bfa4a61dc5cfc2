"""Commits the first records of a cluster: those of `format`, or those that come from ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.controller.decision import Decision
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.records.begin_transaction_record import BeginTransactionRecord
from barnabas.metadata.records.end_transaction_record import EndTransactionRecord
from barnabas.wire.schema import Message

REASON = "the first records of the cluster"


def first_decisions(
    records: Sequence[Message], metadata_version: int, batch_bytes_max: int, reason: str = REASON
) -> Iterator[Decision[Any]]:
    """One decision if the records fit into half a batch. Otherwise (a cluster from ZooKeeper) the decisions
    of one metadata transaction (KIP-868); if the controller changes meanwhile, its successor aborts that and
    begins again."""
    size = sum(map(len, encode_records(records, metadata_version)))
    if size <= batch_bytes_max // 2:
        yield Decision(None, list(records), reason)
        return
    yield Decision(None, [BeginTransactionRecord(name=reason)])
    batch_records = max(1, len(records) * batch_bytes_max // (2 * size))
    for at in range(0, len(records), batch_records):
        yield Decision(None, list(records[at : at + batch_records]), reason)
    yield Decision(None, [EndTransactionRecord()])
