"""The entry of a Spark checkpoint about one micro-batch, as a digest of what planned it.

Spark writes ``offsets/<n>`` before batch n runs: the offsets of every source and the time of planning.
It never writes the entry again, and it repeats a batch from it. A checkpoint that was rolled back plans
batch n again, at another time. So the digest differs between a repeated batch and another batch of the
same number, even if their rows are equal.

There is no digest if Python cannot read the checkpoint (``oss:``, Hadoop's default file system) or if it
is of another query.

Source: Spark's ``OffsetSeqLog`` and ``StreamMetadata`` (the file ``metadata``).
"""

from __future__ import annotations

import hashlib
import json

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.places.stores import StagingStore, open_store

METADATA = "metadata"
OFFSETS = "offsets"
DIGEST_CHARACTERS = 32


def planned(options: SinkOptions, query: str, batch: int) -> str:
    """Digest of what `query` has planned as `batch`, or an empty text if that cannot be read. Without
    ``checkpointLocation`` the checkpoint is looked for around the staging location."""
    location = _location(options)
    if not location or not query:
        return ""
    try:
        store = open_store(location)
        if query_in(store) != query:
            return ""
        entry = store.read(f"{OFFSETS}/{batch}")
    except (OSError, ValueError, KeyError, TypeError, StagingError):
        return ""
    return hashlib.sha256(entry).hexdigest()[:DIGEST_CHARACTERS]


def _location(options: SinkOptions) -> str | None:
    if options.checkpoint is None and options.staging is not None:
        return options.staging.rstrip("/").rpartition("/")[0]
    return options.checkpoint


def query_beside(options: SinkOptions) -> str | None:
    """The id of the query that writes with `options`; None where its checkpoint cannot be read."""
    location = _location(options)
    return query_of(location) if location else None


def query_of(location: str) -> str | None:
    """The id of the query whose checkpoint is at `location`; None where that cannot be read."""
    try:
        return query_in(open_store(location))
    except (OSError, ValueError, KeyError, TypeError, StagingError):
        return None


def query_in(store: StagingStore) -> str:
    found = json.loads(store.read(METADATA))["id"]
    return str(found)
