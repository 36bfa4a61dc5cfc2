"""The cluster's view of pipelines: the group to which a query commits its offsets, and its token.

A query of ``barnabas pipeline`` commits to the group ``spark-<query id>``; one that writes in transactions
leaves a token in the topic ``__barnabas_pipelines`` with each batch. The cluster knows nothing of errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.cli.connection.many_brokers import gathered
from barnabas.client.client import Client
from barnabas.client.offsets import EARLIEST, LATEST, CommittedOffset, committed_offsets
from barnabas.console.cluster_views.histories import Histories
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

PREFIX = "spark-"
TOPIC = "__barnabas_pipelines"
PARTITION = TopicPartition(TOPIC, 0)
QUERIES_MAX = 200
RECORDS_MAX = 20_000
"""Records of the topic that one page reads: it is compacted."""


@dataclass(frozen=True)
class TokenView:
    """The last batch that a query has committed under a transactional id."""

    key: str
    query: str
    batch: int
    rows: int
    at_ms: int


@dataclass(slots=True)
class QueryRow:
    """One query with its progress, by its group and its tokens."""

    query: str
    group: str = ""
    partitions: int = 0
    topics: list[str] = field(default_factory=list)
    committed: int = 0
    lag: int | None = None
    tokens: list[TokenView] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    @property
    def last_commit_ms(self) -> int | None:
        return max((token.at_ms for token in self.tokens), default=None)


def query_rows(connected: Connected, histories: Histories, text: str) -> tuple[list[QueryRow], int]:
    """The first queries that have `text` in their id or in a token's key, and how many there are."""
    groups = connected.call(connected.admin.list_groups())
    rows = {
        name.removeprefix(PREFIX): QueryRow(name.removeprefix(PREFIX), name)
        for name in (group.group_id for group in groups)
        if name.startswith(PREFIX)
    }
    for token in read_tokens(connected):
        rows.setdefault(token.query, QueryRow(token.query)).tokens.append(token)
    found = [
        rows[query]
        for query in sorted(rows)
        if text in query or any(text in token.key for token in rows[query].tokens)
    ]
    shown = found[:QUERIES_MAX]
    _add_lags(connected, shown, histories)
    return shown, len(found)


def read_tokens(connected: Connected) -> list[TokenView]:
    """The committed token of each transactional id; nothing where no query has written any."""
    try:
        connected.topic(TOPIC)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []
    at = connected.offsets([PARTITION], EARLIEST)[PARTITION].offset
    end = connected.offsets([PARTITION], LATEST)[PARTITION].offset
    found: dict[str, TokenView] = {}
    count = 0
    while at < end and count < RECORDS_MAX:
        run = connected.fetch({PARTITION: at}, wait_ms=50, read_committed=True).get(PARTITION)
        if run is None or run.error is not None or run.next_offset <= at:
            break  # the rest belongs to transactions that are open
        for record in run.records(at):
            count += 1
            token = token_of(record.key, record.value, record.timestamp)
            if token is not None:
                found[token.key] = token
        at = run.next_offset
    return [found[key] for key in sorted(found)]


def token_of(key: bytes | None, value: bytes | None, at_ms: int) -> TokenView | None:
    """A record of the topic; None for one that is no token."""
    try:
        raw: Any = json.loads(bytes(value or b""))
        name = bytes(key or b"").decode("utf-8", "replace")
        return TokenView(name, str(raw["query"]), int(raw["batch"]), int(raw.get("rows", 0)), at_ms)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _add_lags(connected: Connected, rows: list[QueryRow], histories: Histories) -> None:
    committed = _committed(connected, [row for row in rows if row.group])
    partitions = sorted({tp for offsets in committed.values() for tp in offsets})
    ends = _ends(connected, partitions)
    for row in rows:
        offsets = committed.get(row.group, {})
        row.partitions = len(offsets)
        row.topics = sorted({tp.topic for tp in offsets})
        row.committed = sum(at.offset for at in offsets.values())
        if offsets:
            row.lag = sum(max(ends.get(tp, at.offset) - at.offset, 0) for tp, at in offsets.items())
    histories.sample({f"query {row.query} records": row.committed for row in rows if row.group})
    for row in rows:
        row.rates = histories.rates(f"query {row.query} records")


def _committed(
    connected: Connected, rows: list[QueryRow]
) -> Mapping[str, dict[TopicPartition, CommittedOffset]]:
    """The committed offsets of the groups whose coordinator answers."""
    client: Client = connected.client
    asked = {index: committed_offsets(client, row.group) for index, row in enumerate(rows)}
    answers = gathered(connected, asked)
    return {
        row.group: answers[index]
        for index, row in enumerate(rows)
        if not isinstance(answers[index], Exception)
    }


def _ends(connected: Connected, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of partitions that have a leader."""
    if not partitions:
        return {}
    cluster = connected.client.cluster
    connected.call(cluster.refresh(dict.fromkeys(tp.topic for tp in partitions)))
    led = [tp for tp in partitions if cluster.leader(tp) is not None]
    return {tp: found.offset for tp, found in connected.offsets(led).items()} if led else {}
