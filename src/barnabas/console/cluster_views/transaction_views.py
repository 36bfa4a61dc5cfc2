"""Transactions: open ones with their partitions, and hanging ones with the reason."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.cli.connection.many_brokers import gathered
from barnabas.client.transaction_admin import (
    HangingTransaction,
    ProducerView,
    TransactionDescription,
    TransactionFilter,
    TransactionListing,
    abort_transaction,
    describe_producers,
    describe_transaction,
    find_hanging,
    list_transactions,
)
from barnabas.host.client import Connected
from barnabas.types import TopicPartition

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
STATES = (*OPEN_STATES, "Empty", "CompleteCommit", "CompleteAbort", "Dead")
DESCRIBED_MAX = 100
"""Open transactions of which a page asks when they began."""
PARTITIONS_MAX = 2_000
"""Partitions in which one page looks for transactions that hang."""
MINUTES = 15
"""Kafka's default ``transaction.max.timeout.ms``."""
MINUTE_MS = 60_000


@dataclass(frozen=True)
class AbortPlan:
    """The transaction that would be aborted in one partition. `reason`: why it hangs; without one
    `refusal` says why it is left alone."""

    partition: TopicPartition
    producer: ProducerView
    reason: str
    refusal: str
    command: list[str]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def listed(connected: Connected, states: Sequence[str], text: str) -> list[TransactionListing]:
    """The transactional ids that have `text` in their name. Raises ``KafkaError``."""
    found = connected.call(list_transactions(connected.client, TransactionFilter(states=states)))
    return [one for one in found if text.lower() in one.transactional_id.lower()]


def described(
    connected: Connected, listings: Sequence[TransactionListing]
) -> dict[str, TransactionDescription]:
    """The beginning and the partitions of each open transaction. Those of a coordinator that does
    not answer are missing."""
    names = [one.transactional_id for one in listings if one.state in OPEN_STATES]
    asked = {
        index: describe_transaction(connected.client, name)
        for index, name in enumerate(names[:DESCRIBED_MAX])
    }
    answers = gathered(connected, asked).values()
    return {
        found.transactional_id: found
        for found in answers
        if isinstance(found, TransactionDescription)
    }


def producers_of(connected: Connected, partition: TopicPartition) -> list[ProducerView]:
    """The producers that the partition's leader knows, the last that wrote first."""
    connected.topic(partition.topic)
    found = connected.call(describe_producers(connected.client, [partition]))[partition]
    return sorted(found, key=lambda producer: -producer.last_timestamp)


def hanging(connected: Connected, topic: str, minutes: int) -> list[HangingTransaction]:
    """Open transactions of `topic`, or of all topics, that no coordinator will end. Raises ``ValueError``
    where there are too many partitions to ask."""
    views = [connected.topic(topic)] if topic else connected.topics()
    partitions = [
        TopicPartition(view.name, index)
        for view in views
        for index, placed in sorted(view.partitions.items())
        if placed.leader >= 0
    ]
    if len(partitions) > PARTITIONS_MAX:
        raise ValueError(
            f"{len(partitions)} partitions would be asked, more than {PARTITIONS_MAX}: name a topic"
        )
    asked = find_hanging(
        connected.client, partitions, silent_ms_min=minutes * MINUTE_MS, wall_ms=now_ms()
    )
    return connected.call(asked)


def plan_abort(connected: Connected, partition: TopicPartition, start: int) -> AbortPlan:
    """Ask for the open transaction that begins at `start`; nothing changes. Raises ``ValueError``."""
    opened = [p for p in producers_of(connected, partition) if p.transaction_start == start]
    if start < 0 or not opened:
        raise ValueError(f"no open transaction of {partition} begins at offset {start}")
    (producer,) = opened[:1]
    asked = find_hanging(connected.client, [partition], silent_ms_min=-1 << 62, wall_ms=now_ms())
    reasons = {found.producer.producer_id: found.reason for found in connected.call(asked)}
    reason = reasons.get(producer.producer_id, "")
    refusal = "" if reason else "its coordinator knows of this transaction and will end it"
    command = ["transactions", "abort", "--topic", partition.topic]
    command += ["--partition", str(partition.partition), "--start-offset", str(start)]
    return AbortPlan(partition, producer, reason, refusal, command)


def execute_abort(connected: Connected, plan: AbortPlan) -> None:
    """Raises ``ValueError`` where the plan is refused, ``KafkaError``."""
    if plan.refusal:
        raise ValueError(plan.refusal)
    connected.call(abort_transaction(connected.client, plan.partition, plan.producer))
