"""The beginning of a stream: found once, and kept until its first batch is done.

Owns ``<checkpoint>/barnabas/begin.json``, for readers that have ``checkpointLocation``. Spark asks a Python
source for its initial offset more than once: to plan the first batch, to read it, and again for each run that
repeats it. An answer that is found again each time skips what retention has deleted in between, and what came
in between where the query begins at the end. So the first answer is written down before the first batch is
planned, and given again.

The file has an entry for each subscription and starting place, since several readers may share a checkpoint.
An entry counts for the query whose id it has, or for any where it was written before there was a query.
Spark's Kafka connector keeps the same in ``sources/<n>/0``, which is read where a query moves here in its
first batch.

Source: Spark's ``KafkaSourceInitialOffsetWriter`` and ``MicroBatchExecution``.
"""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import suppress
from typing import Any

from barnabas.pipeline.checkpoint import query_in
from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.offsets import PartitionOffsets, from_json, to_json
from barnabas.pipeline.options import AtOffsets, AtTimestamps, Everywhere, SourceOptions
from barnabas.pipeline.places.stores import StagingStore, open_store
from barnabas.pipeline.positions.offset_resolution import offsets_at, partitions_at_start
from barnabas.pipeline.positions.topic_ids import TopicIds

log = logging.getLogger(__name__)

FILE = "barnabas/begin.json"
SOURCES = "sources"
NAME_CHARACTERS = 16


def begin_of(options: SourceOptions, ids: TopicIds) -> PartitionOffsets:
    """The beginning of a query whose first batch is not done. Found now where it is not kept, and kept
    then, with the `ids` of its topics. Raises `OptionError`."""
    if options.checkpoint is None:
        log.warning(
            "pipeline.begin_not_kept: the reader has no option checkpointLocation, so a first batch that is"
            " repeated looks for its beginning again, and misses what is deleted until then"
        )
        return _found(options)
    kept = kept_begin(options)
    if kept is not None:
        return kept
    begin = _found(options)
    keep_begin(options, begin, ids)
    return begin


def kept_begin(options: SourceOptions) -> PartitionOffsets | None:
    """The beginning that is kept beside the checkpoint; None where nothing is."""
    assert options.checkpoint is not None
    store = open_store(options.checkpoint)
    entry = _entries(store).get(_name(options))
    if entry is not None and entry["query"] in (None, _query(store)):
        return from_json(entry["offsets"])
    return _of_sparks_connector(store, options)


def keep_begin(options: SourceOptions, begin: PartitionOffsets, ids: TopicIds) -> None:
    """Keep `begin` beside the checkpoint, and that its topics are those of now."""
    assert options.checkpoint is not None
    ids.take(options.cluster.connect(), begin, begin)
    store = open_store(options.checkpoint)
    entries = _entries(store)
    entries[_name(options)] = {"query": _query(store), "offsets": to_json(begin)}
    store.write(FILE, [json.dumps(entries).encode()])


def _found(options: SourceOptions) -> PartitionOffsets:
    cluster = options.cluster.connect()
    partitions = partitions_at_start(cluster, options.subscription)
    return offsets_at(cluster, options.starting, partitions, options, starting=True)


def _entries(store: StagingStore) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(store.read(FILE))
    except FileNotFoundError:
        return {}
    return found


def _query(store: StagingStore) -> str | None:
    """The id of the checkpoint's query, which Spark writes before it asks a source for anything."""
    try:
        return query_in(store)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _name(options: SourceOptions) -> str:
    """Names what is read, and from where on."""
    what = options.subscription
    match options.starting:
        case Everywhere(timestamp):
            starting: Any = timestamp
        case AtOffsets(offsets) | AtTimestamps(offsets):
            starting = [type(options.starting).__name__, to_json(offsets)]
    text = json.dumps(
        [
            list(what.topics),
            what.pattern,
            [str(partition) for partition in what.partitions],
            starting,
            options.without_timestamp,
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:NAME_CHARACTERS]


def _of_sparks_connector(store: StagingStore, options: SourceOptions) -> PartitionOffsets | None:
    """The beginning that Spark's Kafka connector has kept, where it is the query's only source."""
    with suppress(FileNotFoundError, ValueError, AttributeError, TypeError, StagingError):
        if [name for name in store.names(SOURCES) if name.isdigit()] != ["0"]:
            return None
        version, _, text = store.read(f"{SOURCES}/0/0").decode().lstrip("\0").partition("\n")
        if version == "v1":
            return from_json(json.loads(text))
    return None
