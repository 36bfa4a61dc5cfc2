"""Which topic a query has been reading: a topic that is deleted and created again has another id.

Owns the ids of a stream's topics, in memory and, where the reader has ``checkpointLocation``, in
``<checkpoint>/barnabas/topics.json``. By offsets alone a topic that was created again and has grown past the
query's position would be read on from its middle.

A batch in which a topic turned out to be another keeps its offsets in Spark's checkpoint: it goes from an
old offset to a new one. `begins_again` says of such a pair that it is read from the new topic's beginning,
also when the batch is run again after a restart. A pair is of that batch alone: offsets of the new topic
only grow from there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.offsets import PartitionOffsets, from_json, to_json
from barnabas.pipeline.places.stores import StagingStore, open_store
from barnabas.types import ZERO_UUID, TopicPartition, Uuid, uuid_text

FILE = "topics.json"


class TopicIds:
    """The ids of one stream's topics."""

    def __init__(self, checkpoint: str | None) -> None:
        self._checkpoint = checkpoint
        self._ids: dict[str, str] | None = None
        self._from: PartitionOffsets = {}
        self._to: PartitionOffsets = {}

    def __repr__(self) -> str:
        return f"TopicIds({self._ids})"

    def created_again(
        self, cluster: ClusterClient, partitions: Iterable[TopicPartition]
    ) -> set[TopicPartition]:
        """Those of topics that the query has been reading under another id."""
        known = self._load()
        asked = sorted(partitions)
        others = set()
        for name in sorted({partition.topic for partition in asked}):
            now = topic_id_of(cluster, name)
            if now is not None and known.get(name, uuid_text(now)) != uuid_text(now):
                others.add(name)
        return {partition for partition in asked if partition.topic in others}

    def take(
        self,
        cluster: ClusterClient,
        begin: PartitionOffsets,
        end: PartitionOffsets,
        again: Collection[TopicPartition] = (),
    ) -> None:
        """A batch is planned from `begin` to `end`: its topics are those of now. Partitions `again` are
        read from their beginning in it."""
        known = self._load()
        fresh = dict(known)
        for name in sorted({partition.topic for partition in end}):
            now = topic_id_of(cluster, name)
            if now is not None:
                fresh[name] = uuid_text(now)
        if fresh == known and not again:
            return
        self._ids = fresh
        if again:
            self._from = {partition: begin[partition] for partition in sorted(again)}
            self._to = {partition: end[partition] for partition in sorted(again)}
        store = self._store()
        if store is not None:
            self._write(store, {partition.topic for partition in end})

    def begins_again(self, partition: TopicPartition, begin: int, end: int) -> bool:
        """Whether the range of a batch is that in which the partition's topic became another."""
        self._load()
        return self._from.get(partition) == begin and self._to.get(partition) == end

    def _write(self, store: StagingStore, mine: Collection[str]) -> None:
        """Write what is known of topics `mine`. What the file has of others is kept: another reader of the
        same query may have written it."""
        assert self._ids is not None
        document = _read(store)
        document["ids"] |= {name: self._ids[name] for name in sorted(mine) if name in self._ids}
        for side, offsets in (("from", self._from), ("to", self._to)):
            others = {
                name: partitions for name, partitions in document[side].items() if name not in mine
            }
            own = {
                name: partitions for name, partitions in to_json(offsets).items() if name in mine
            }
            document[side] = others | own
        store.write(FILE, [json.dumps(document).encode()])

    def _store(self) -> StagingStore | None:
        return None if self._checkpoint is None else open_store(f"{self._checkpoint}/barnabas")

    def _load(self) -> dict[str, str]:
        if self._ids is None:
            self._ids = {}
            store = self._store()
            if store is not None:
                raw = _read(store)
                self._ids = dict(raw["ids"])
                self._from, self._to = from_json(raw["from"]), from_json(raw["to"])
        return self._ids


def _read(store: StagingStore) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(store.read(FILE))
    except FileNotFoundError:
        return {"ids": {}, "from": {}, "to": {}}
    return found


def topic_id_of(cluster: ClusterClient, topic: str) -> Uuid | None:
    """None where the topic is not there, or its brokers have no ids."""
    known = cluster.topic(topic)
    return None if known is None or known.topic_id == ZERO_UUID else known.topic_id
