"""Which batch each query has committed: one record per query in a compacted topic, written with the batch.

Owns the topic ``__barnabas_pipelines``: a record's key is the query's transactional id, its value the
:class:`Token`. The record belongs to the transaction that holds the rows of its batch, so that the two
count together or not at all.

A token is looked for up to the high watermark, uncommitted records included, and counts if the next marker
of its producer is a commit. A read_committed fetch would wait for the open transactions of *other*
queries in the partition. The caller has ended its own by InitProducerId, so that each of its records has a
marker; a record without one belongs to another transactional id and is none of the caller's.

Anchors: the offsets topic of Kafka Connect's exactly-once sources (KIP-618). Compaction keeps a marker as
long as records of its transaction are there (``CleanedTransactionMetadata``).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from barnabas.pipeline import own_topics
from barnabas.pipeline.cluster_client import ClusterClient, offsets_of_all
from barnabas.pipeline.errors import LedgerError
from barnabas.pipeline.offsets import EARLIEST, LATEST, Range
from barnabas.pipeline.options import ClusterOptions, SourceOptions
from barnabas.pipeline.read.range_reader import RangeReader
from barnabas.pipeline.write.commit_log import NOTHING, CommitEntry, Origin
from barnabas.pipeline.write.prepared.participants import Participant
from barnabas.record.batch import BatchView, iterate
from barnabas.record.builder import CONTROL_KEY, ControlType, build_batch
from barnabas.record.decode import records_of
from barnabas.types import TopicPartition

TOPIC = "__barnabas_pipelines"
PARTITION = TopicPartition(TOPIC, 0)
VERSION = 2
"""The version of a token that lists transactions of tasks; without it has version 1, which earlier
versions of Barnabas read too."""
PARTICIPANTS_MAX = 20_000
"""A participant takes some 30 bytes, and a record 1 MiB at most by the topic's default."""
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
"""Small segments: what is compacted is every segment but the last."""


NO_ORIGIN = Origin()


@dataclass(frozen=True, slots=True)
class Token:
    """The last batch that a query has committed; `offset` is where the record is."""

    batch: int
    origin: Origin = NO_ORIGIN
    rows: int = 0
    offset: int = -1
    participants: tuple[Participant, ...] = ()
    """Transactions of tasks that count with the batch: a driver that reads the token commits them."""

    def value(self) -> bytes:
        document: dict[str, Any] = {
            "version": VERSION if self.participants else 1,
            "batch": self.batch,
            "query": self.origin.query,
            "run": self.origin.run,
            "planned": self.origin.planned,
            "rows": self.rows,
        }
        if self.participants:
            document["tasks"] = _by_process(self.participants)
        return json.dumps(document, separators=(",", ":")).encode()

    def record_batch(self, key: str) -> bytes:
        """The token as a record batch, without producer identity."""
        return build_batch([(key.encode(), self.value())], timestamp_ms=int(time.time() * 1000))

    def entry(self) -> CommitEntry:
        """The entry that a ledger would have."""
        return CommitEntry(self.batch, origin=self.origin)


def token_from(key: str, value: bytes, offset: int) -> Token:
    """Raises `LedgerError` for a token that a later version wrote."""
    raw: dict[str, Any] = json.loads(value)
    if raw.get("version") not in (1, VERSION):
        raise LedgerError(
            f"the token of {key} in topic {TOPIC} has version {raw.get('version')}, this Barnabas reads"
            f" versions 1 and {VERSION}: run the query with the one that wrote it"
        )
    origin = Origin(raw["query"], raw["run"], raw["planned"])
    participants = tuple(
        Participant(f"{process}.{number}", producer_id, producer_epoch)
        for process, tasks in raw.get("tasks", {}).items()
        for number, producer_id, producer_epoch in tasks
    )
    return Token(raw["batch"], origin, raw.get("rows", 0), offset, participants)


def _by_process(participants: tuple[Participant, ...]) -> dict[str, list[tuple[int, int, int]]]:
    """Number, producer id and epoch of each, by the process that its name begins with."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for suffix, producer_id, producer_epoch in participants:
        process, _, number = suffix.partition(".")
        found.setdefault(process, []).append((int(number), producer_id, producer_epoch))
    return found


def ensure_topic(cluster: ClusterClient) -> None:
    """Make the topic where it is not there. Raises `KafkaError` where that is not permitted."""
    if cluster.topic(TOPIC) is None:
        own_topics.ensure_topic(cluster, TOPIC, 1, SETTINGS)


def read_tokens(
    cluster: ClusterClient, options: ClusterOptions, *, key: str | None = None, since: int = 0
) -> dict[str, Token]:
    """The committed token of `key`, or of all, by key. `since` is an offset that the token of `key` is not
    before: that of an earlier one."""
    end = _bound(cluster, LATEST)
    if since > end:
        since = 0  # the topic was made again
    begin = since or _bound(cluster, EARLIEST)
    found: dict[str, Token] = {}
    open_: dict[int, dict[str, Token]] = {}
    source = SourceOptions(options, fail_on_data_loss=False)
    what = Range(*PARTITION, begin, end)
    for run in RangeReader(cluster, what, source).runs():
        for batch in iterate(run.records):
            if batch.header.is_control:
                written = open_.pop(batch.header.producer_id, {})
                if _is_commit(batch):
                    found.update(written)
                continue
            mine = _tokens_of(batch, key)
            if batch.header.is_transactional:
                open_.setdefault(batch.header.producer_id, {}).update(mine)
            else:
                found.update(mine)
    return found


def _bound(cluster: ClusterClient, at: int) -> int:
    known = offsets_of_all(cluster, {PARTITION: at}, patience_ms=cluster.patience_ms)
    return known[PARTITION]


def _tokens_of(batch: BatchView, key: str | None) -> dict[str, Token]:
    found: dict[str, Token] = {}
    for record in records_of(batch):
        name = (record.key or b"").decode(errors="replace")
        if record.value is not None and key in (None, name):
            found[name] = token_from(name, record.value, record.offset)
    return found


def _is_commit(batch: BatchView) -> bool:
    for record in records_of(batch):
        if record.key is not None:
            return bool(CONTROL_KEY.unpack_from(record.key)[1] == ControlType.COMMIT)
    return False


def entry_of(token: Token | None) -> CommitEntry:
    """The entry that a ledger would have, for a query with this token or none."""
    return CommitEntry(NOTHING, is_there=False) if token is None else token.entry()
