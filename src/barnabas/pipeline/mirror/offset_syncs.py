"""Offset syncs of a mirror: pairs of positions in source and target, in a topic of the target.

Owns the topic ``barnabas-offset-syncs.<alias>.internal`` and the topics that records are mirrored to. After
the commit of a batch each partition gets one sync: the batch's end offset in the source, and the end offset
of the target's partition at that time. A consumer's offset is translated by the last sync at or before it.
The records between the two are read again, and none is missed.

MirrorMaker's syncs name records, these name positions. So the topic has another name than MirrorMaker's, and
an offset after a sync is translated to the sync itself.

The mirror is the only writer of its topics. A batch that is repeated finds the target's ends where they were.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from barnabas.client.producers.transaction_coordinator import ProducerIdentity
from barnabas.pipeline.cluster_client import offsets_of_all
from barnabas.pipeline.mirror.offset_formats import OffsetSync, sync_from
from barnabas.pipeline.offsets import EARLIEST, LATEST, Range
from barnabas.pipeline.options import SinkOptions, SourceOptions
from barnabas.pipeline.own_topics import ensure_topic
from barnabas.pipeline.read.range_reader import RangeReader
from barnabas.pipeline.write.publisher import Outgoing, Publisher
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.record.decode import records_of
from barnabas.types import TopicPartition

COMPACTED = {"cleanup.policy": "compact"}


def syncs_topic(alias: str) -> str:
    return f"barnabas-offset-syncs.{alias or 'source'}.internal"


def remote_topic(alias: str, topic: str) -> str:
    """The name by MirrorMaker's DefaultReplicationPolicy; without an alias topics keep their names."""
    return f"{alias}.{topic}" if alias else topic


def append(options: SinkOptions, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Write keys and values to partition 0 of an internal topic, with acks=all."""
    pairs = list(records)
    if not pairs:
        return
    cluster = options.cluster.connect()
    ensure_topic(cluster, topic, 1, COMPACTED)
    data = bytearray(build_batch(pairs, timestamp_ms=int(time.time() * 1000)))
    identity = ProducerIdentity(*cluster.init_producer_id())
    outgoing = Outgoing(TopicPartition(topic, 0), 0, len(pairs), len(data), lambda: data)
    Publisher(cluster, identity, options).publish([outgoing])


def read_all(options: SinkOptions, topic: str) -> list[tuple[bytes, bytes]]:
    """Keys and values of an internal topic in log order; none if it does not exist."""
    cluster = options.cluster.connect()
    if cluster.topics([topic]).get(topic) is None:
        return []
    of = TopicPartition(topic, 0)
    begin = offsets_of_all(cluster, {of: EARLIEST}, patience_ms=cluster.patience_ms)[of]
    end = offsets_of_all(cluster, {of: LATEST}, patience_ms=cluster.patience_ms)[of]
    source = SourceOptions(options.cluster, fail_on_data_loss=False)
    return [
        (record.key, record.value)
        for run in RangeReader(cluster, Range(topic, 0, begin, end), source).runs()
        for batch in iterate(run.records)
        if not batch.header.is_control
        for record in records_of(batch)
        if record.key is not None and record.value is not None
    ]


class OffsetSyncs:
    """All syncs of one mirror, as they are in its topic."""

    def __init__(self, options: SinkOptions, alias: str) -> None:
        self._options = options
        self._alias = alias
        self._known: dict[TopicPartition, list[tuple[int, int]]] = {}
        for key, value in read_all(options, syncs_topic(alias)):
            self._learn(sync_from(key, value))

    def _learn(self, sync: OffsetSync) -> bool:
        """Add a sync. False if it is not after the last one of its partition."""
        known = self._known.setdefault(sync.of, [])
        if known and known[-1][0] >= sync.upstream:
            return False
        known.append((sync.upstream, sync.downstream))
        return True

    def ensure_targets(self, ends: Mapping[TopicPartition, int]) -> None:
        """Give the topics of the target as many partitions as the source's have."""
        counts: dict[str, int] = {}
        for topic, partition in ends:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        for topic, count in sorted(counts.items()):
            ensure_topic(self._options.cluster.connect(), remote_topic(self._alias, topic), count)

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        """Write the syncs of a batch that the target has; `ends` are its end offsets in the source."""
        cluster = self._options.cluster.connect()
        at = {
            TopicPartition(remote_topic(self._alias, partition.topic), partition.partition): LATEST
            for partition in ends
        }
        found = offsets_of_all(cluster, at, patience_ms=cluster.patience_ms)
        syncs = []
        for partition, end in sorted(ends.items()):
            there = TopicPartition(remote_topic(self._alias, partition.topic), partition.partition)
            sync = OffsetSync(partition, end, found[there])
            if self._learn(sync):
                syncs.append((sync.key(), sync.value()))
        append(self._options, syncs_topic(self._alias), syncs)

    def translated(self, of: TopicPartition, upstream: int) -> int | None:
        """The offset where a consumer at `upstream` of the source continues in the target; None if no
        sync is at or before it."""
        known = self._known.get(of, [])
        at = bisect_right(known, (upstream, 1 << 62))
        return known[at - 1][1] if at else None
