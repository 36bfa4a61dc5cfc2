"""Transactions of tasks: who holds one, which are open, and how they are ended.

Owns the conversation with the coordinators of many transactional ids at once: requests are under way to all
of them together. Each request names producer id and epoch, so that it ends that transaction and no other one
of the id.

Source: KIP-98, KIP-664, KIP-939; anchor: the pooled transactional ids of Flink's Kafka sink.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client.client import Client, may_pass
from barnabas.client.network.connection import ChannelError
from barnabas.client.producers.transaction_coordinator import (
    END_BEFORE_IMPLICIT,
    ProducerIdentity,
    TransactionCoordinator,
)
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.patience import Patience
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.wire.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from barnabas.wire.messages.list_transactions_request import ListTransactionsRequest
from barnabas.wire.messages.list_transactions_response import ListTransactionsResponse

ALWAYS, NEVER = "always", "never"
"""Values of option ``taskTransactions``; the third is ``auto``."""
IN_FLIGHT_MAX = 32
"""Transactions that are ended at a time."""
ONGOING = "Ongoing"
LOADING_MS_MAX = 5_000
"""Time for a broker that has just become a coordinator to list its transactions."""
FORM = r"\.[0-9a-f]{12}\.[0-9]+"
"""The part of a task's transactional id behind the driver's: its process, and a number."""


class Participant(NamedTuple):
    """One transaction of a task. Its transactional id is the driver's, a point, and `suffix`."""

    suffix: str
    producer_id: int
    producer_epoch: int

    def name(self, key: str) -> str:
        return f"{key}.{self.suffix}"


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """A driver with transactional id `key` has begun a batch, as `identity`."""

    key: str
    identity: ProducerIdentity


def pattern_of(key: str) -> str:
    """A regular expression for the transactional ids of the tasks of driver `key`."""
    return re.escape(key) + FORM


def end_all(
    cluster: ClusterClient, key: str, participants: Iterable[Participant], *, commit: bool
) -> dict[Participant, ErrorCode]:
    """End each transaction. NONE: the end is decided, now or before; otherwise why no waiting brings it
    about. Raises `ClusterUnreachableError`."""
    left = iter(dict.fromkeys(participants))
    ended: dict[Participant, ErrorCode] = {}

    async def end_some(client: Client) -> None:
        for participant in left:  # which several share
            coordinator = TransactionCoordinator(
                client,
                participant.name(key),
                timeout_ms=cluster.patience_ms,
                attempt_timeout_ms=cluster.request_timeout_ms,
            )
            identity = ProducerIdentity(participant.producer_id, participant.producer_epoch)
            try:
                await coordinator.end(identity, commit=commit, at_most=END_BEFORE_IMPLICIT)
            except KafkaError as error:
                if may_pass(error):
                    raise
                ended[participant] = error.code
            else:
                ended[participant] = ErrorCode.NONE

    async def end_together(client: Client) -> None:
        await client.tasks.gather([end_some(client) for _ in range(IN_FLIGHT_MAX)])

    cluster.patiently(cluster.patience_ms, f"transactions of {key}", end_together)
    return ended


def list_open(cluster: ClusterClient, key: str) -> list[Participant]:
    """Transactions of tasks of driver `key` that are open. A coordinator that does not answer, or is being
    loaded for longer than `LOADING_MS_MAX`, is left out."""
    found: list[Participant] = []
    for endpoint, names in _open(cluster, pattern_of(key)):
        with suppress(ChannelError):
            for state in _described(cluster, endpoint, names):
                suffix = state.transactional_id.removeprefix(f"{key}.")
                found.append(Participant(suffix, state.producer_id, state.producer_epoch))
    return found


def list_keys(cluster: ClusterClient) -> dict[str, int]:
    """When the oldest open transaction of a task began, in ms since 1970, by driver."""
    found: dict[str, int] = {}
    for endpoint, names in _open(cluster, ".+" + FORM):
        with suppress(ChannelError):
            for state in _described(cluster, endpoint, names):
                key = state.transactional_id.rsplit(".", 2)[0]
                began_ms = state.transaction_start_time_ms
                found[key] = min(began_ms, found.get(key, began_ms))
    return found


def _open(cluster: ClusterClient, pattern: str) -> Iterator[tuple[Endpoint, list[str]]]:
    """Names of open transactions that match, by coordinator."""
    cluster.topics([])
    wanted = re.compile(pattern)
    request = ListTransactionsRequest(state_filters=[ONGOING], transactional_id_pattern=pattern)
    for endpoint in cluster.brokers():
        with suppress(ChannelError):
            listed = _listed(cluster, endpoint, request)
            names = [state.transactional_id for state in listed.transaction_states]
            names = [name for name in names if wanted.fullmatch(name)]
            if names:
                yield endpoint, names


def _listed(
    cluster: ClusterClient, endpoint: Endpoint, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """The answer of a broker. One that has just become a coordinator is asked again: it lists nothing until
    all partitions of its own are loaded."""
    patience = Patience(min(cluster.patience_ms, LOADING_MS_MAX))
    while True:
        listed = cluster.call(endpoint, request, ListTransactionsResponse)
        if listed.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or patience.left_ms <= 0:
            return listed
        patience.wait(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name)


def _described(
    cluster: ClusterClient, endpoint: Endpoint, names: Sequence[str]
) -> list[TransactionState]:
    """Those of `names` that are open at their coordinator."""
    described = cluster.call(
        endpoint,
        DescribeTransactionsRequest(transactional_ids=names),
        DescribeTransactionsResponse,
    )
    return [
        state
        for state in described.transaction_states
        if state.error_code == ErrorCode.NONE and state.transaction_state == ONGOING
    ]
