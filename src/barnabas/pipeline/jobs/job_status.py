"""How far a job is, by three witnesses: its checkpoint, its group, and what its sinks say; without Spark.

Owns what is asked of whom. The checkpoint says which batch is done and where it ended; the group
``spark-<query>`` what was committed for those who look; a topic's token, a table's log or its folders which
batch of the job is in them. A sink may be one batch ahead of the checkpoint: the batch is repeated, and
changes nothing. A witness that does not answer is left out, and said.
"""

from __future__ import annotations

from typing import Any

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.job_file import Job, Query, Sink
from barnabas.pipeline.jobs.job_offsets import position_of
from barnabas.pipeline.jobs.query_run import application_of, table_of
from barnabas.pipeline.jobs.tables.parquet_table import ParquetTable
from barnabas.pipeline.mirror.group_offsets import committed_by
from barnabas.pipeline.offsets import PartitionOffsets
from barnabas.pipeline.options import cluster_options, sink_options, source_options
from barnabas.pipeline.positions.offset_resolution import latest
from barnabas.pipeline.read.lag import PREFIX
from barnabas.pipeline.write.prepared.recovery import transactional_id
from barnabas.pipeline.write.tokens import TOPIC, read_tokens
from barnabas.wire.errors import KafkaError


def status_of(job: Job) -> dict[str, Any]:
    """The status for people and programs. Raises `PipelineError`."""
    if job.is_graph:
        queries = [{"name": query.name, **query_status(job, query)} for query in job.queries]
        return {"job": job.name, "queries": queries}
    return {"job": job.name, **query_status(job, job.queries[0])}


def query_status(job: Job, query: Query) -> dict[str, Any]:
    """The status of one query. Raises `PipelineError`."""
    at = position_of(query.checkpoint)
    sources = [read for read in job.sources_of(query) if read.is_topics]
    found: dict[str, Any] = {
        "query": at.query,
        "batch": at.done,
        "planned": at.planned if at.planned > at.done else None,
        "group": f"{PREFIX}{at.query}" if at.query and sources else None,
        "sinks": [_sink_status(job, sink) for sink in query.sinks],
        "partitions": [],
    }
    if not sources or not at.done_offsets:
        return found
    left = dict(at.done_offsets)
    for source in sources:
        options = source_options(source.options, streaming=True)
        cluster = cluster_options(source.options).connect()
        ends = latest(cluster, list(left), options)
        # Another source of the query may be of another cluster.
        offsets = {
            partition: left[partition]
            for partition in left
            if partition in ends or source is sources[-1]
        }
        left = {partition: offset for partition, offset in left.items() if partition not in offsets}
        in_group = _in_group(cluster, found["group"])
        found["partitions"] += [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offsets[partition],
                "end": ends.get(partition),
                "lag": max(ends[partition] - offsets[partition], 0) if partition in ends else None,
                "in_group": in_group.get(partition),
            }
            for partition in sorted(offsets)
        ]
    return found


def _in_group(cluster: ClusterClient, group: str | None) -> PartitionOffsets:
    """The offsets that the group has, as far as its coordinator says."""
    if group is None:
        return {}
    try:
        return committed_by(cluster, group)
    except (KafkaError, ChannelError, PipelineError):
        return {}


def _sink_status(job: Job, sink: Sink) -> dict[str, Any]:
    """The last batch of the job that the sink has, None for none; or why that is not known."""
    try:
        if sink.kind in ("topic", "mirror"):
            return {"sink": str(sink), "batch": _token_batch(job, sink)}
        table = table_of(sink)
        if isinstance(table, ParquetTable):
            return {"sink": str(sink), "batch": max(table.batches(job.name), default=None)}
        return {"sink": str(sink), "batch": table.last(job.name)}
    except (KafkaError, ChannelError, PipelineError, OSError) as error:
        return {"sink": str(sink), "batch": None, "error": str(error)}


def _token_batch(job: Job, sink: Sink) -> int | None:
    options = sink_options(sink.options, streaming=False)
    cluster = options.cluster.connect()
    if TOPIC not in cluster.topics([TOPIC]):
        return None
    key = transactional_id(options, application_of(job, sink))
    token = read_tokens(cluster, options.cluster, key=key).get(key)
    return None if token is None else token.batch
