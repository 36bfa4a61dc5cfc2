"""Pytest fixtures for jobs: feed their topics, run their file, read their sinks.

``pytest_plugins = ["barnabas.pipeline.testing"]`` gives a test the fixture ``pipeline``. Behind it are a real
cluster of one node on free ports and a local Spark session, one of each for the whole run. When a test ends,
its topics are deleted and what its jobs have written is forgotten, so that two tests may run one job. Needs
Java: a test without it is skipped.

>>> def test_flights_become_loud(pipeline):             # doctest: +SKIP
...     job = pipeline("jobs/loud_flights.toml")        # its ${KAFKA} and ${DATA} are the test's
...     job.feed("flights", "one", ("key", "two"), {"id": 3})
...     job.run()
...     assert job.values("loud-flights") == ["ONE", "TWO", '{"ID": 3}']
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from barnabas.pipeline.cluster_client import ClusterClient, offsets_of_all
from barnabas.pipeline.jobs.job_file import Job, Source, load
from barnabas.pipeline.jobs.job_run import JobRun
from barnabas.pipeline.jobs.job_session import missing_java, session_of
from barnabas.pipeline.offsets import EARLIEST, LATEST, Range
from barnabas.pipeline.options import SinkOptions, cluster_options, source_options
from barnabas.pipeline.write import token_ledger
from barnabas.pipeline.write.token_ledger import TokenLedger
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from barnabas.wire.messages import delete_topics_request
from barnabas.wire.messages.delete_topics_response import DeleteTopicsResponse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELETE_MS = 30_000
TESTS = Job("", "tests", "", Source({}), ())
"""The job whose name the session has."""


@dataclass(frozen=True, slots=True)
class FedRecord:
    """A record with all that it may have. A value that is a dict or a list is written as JSON."""

    value: Any = None
    key: Any = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record of a sink's topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


Fed: TypeAlias = Any
"""A value, (key, value) or `FedRecord`."""


class PipelineTest:
    """A job's file in a test; `environment` are its variables."""

    def __init__(self, job: Job, spark: SparkSession, environment: dict[str, str]) -> None:
        self.job = job
        self.environment = environment
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": environment["KAFKA"]}
        self.lines: list[str] = []
        """The lines that `run` has printed."""

    def feed(self, topic: str, *records: Fed) -> None:
        """Append to a topic, which is made where it is not there."""
        import pyarrow as pa

        from barnabas.pipeline.write.batch_encoder import BatchEncoder
        from barnabas.pipeline.write.direct import DirectSender

        rows = [_fed(record) for record in records]
        header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
        headers = [[{"key": k, "value": v} for k, v in row.headers] for row in rows]
        stamps = [row.timestamp_ms for row in rows]
        batch = pa.RecordBatch.from_pydict(
            {
                "key": pa.array([_bytes(row.key) for row in rows], pa.binary()),
                "value": pa.array([_bytes(row.value) for row in rows], pa.binary()),
                "headers": pa.array(headers, pa.list_(header)),
                "timestamp": pa.array(stamps, pa.timestamp("ms", "UTC")),
                "partition": pa.array([row.partition for row in rows], pa.int32()),
            }
        )
        options = SinkOptions(cluster_options(self._options), topic=topic)
        count = options.cluster.connect().partition_count
        sender = DirectSender(options)
        encoder = BatchEncoder(options, count, wall_ms=int(time.time() * 1000), turn=0)
        for encoded in encoder.encode(batch):
            sender.add(encoded)
        sender.flush()

    def run(self) -> None:
        """Write what is there now, then end; the next call continues. Raises `RunFailedError`."""
        JobRun(self.job, self._spark, lambda told: self.lines.append(str(told))).run(
            available_now=True
        )

    def records(self, topic: str) -> list[FoundRecord]:
        """The records that are committed in a topic of the test's cluster, by partition and offset."""
        import pyarrow as pa

        from barnabas.pipeline.read.range_reader import RangeReader

        given = self._options | {"subscribe": topic, "kafka.isolation.level": "read_committed"}
        options = source_options(given, streaming=False)
        cluster = options.cluster.connect()
        known = cluster.topics([topic]).get(topic)
        if known is None:
            return []
        of = [TopicPartition(topic, index) for index in known.partitions]
        patience_ms = cluster.patience_ms
        first = offsets_of_all(cluster, dict.fromkeys(of, EARLIEST), patience_ms=patience_ms)
        ends = offsets_of_all(cluster, dict.fromkeys(of, LATEST), patience_ms=patience_ms)
        header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
        schema = pa.schema(
            [
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(header)),
                ("timestamp", pa.timestamp("us", "UTC")),
            ]
        )
        return [
            FoundRecord(
                row["partition"],
                row["offset"],
                row["key"],
                row["value"],
                tuple((header["key"], header["value"]) for header in row["headers"] or ()),
                round(row["timestamp"].timestamp() * 1000),
            )
            for partition in of
            for batch in RangeReader(
                cluster, Range(*partition, first[partition], ends[partition]), options
            ).batches(schema)
            for row in batch.to_pylist()
        ]

    def values(self, topic: str) -> list[str | None]:
        """Values of a topic as text, sorted: partitions have no order among each other."""
        found = [
            None if record.value is None else record.value.decode()
            for record in self.records(topic)
        ]
        return sorted(found, key=lambda value: value or "")

    def rows(self, place: str = "") -> list[dict[str, Any]]:
        """Rows of a table sink: of the one that the job has, or of that at `place`."""
        import pyarrow.dataset as ds

        tables = [sink for sink in self.job.sinks if sink.kind in ("parquet", "delta", "iceberg")]
        (sink,) = [sink for sink in tables if place in ("", sink.place)]
        if sink.kind == "iceberg":
            from barnabas.pipeline.jobs.tables.iceberg_table import open_catalog

            table = open_catalog(sink.catalog).load_table(sink.place).scan().to_arrow()
        elif sink.kind == "delta":
            from deltalake import DeltaTable

            table = DeltaTable(sink.place).to_pyarrow_table()
        else:
            table = ds.dataset(sink.place, format="parquet", partitioning="hive").to_table()
        found: list[dict[str, Any]] = table.to_pylist()
        return found


def _fed(record: Fed) -> FedRecord:
    if isinstance(record, FedRecord):
        return record
    if isinstance(record, tuple):
        key, value = record
        return FedRecord(value, key)
    return FedRecord(record)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value).encode()
    return str(value).encode()


@pytest.fixture(scope="session")
def pipeline_cluster() -> Iterator[Cluster]:
    """One node, on free ports of loopback."""
    with Cluster(nodes=1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pipeline_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session on two cores; one that is there already is used and left as it is."""
    sentence = missing_java()
    if sentence is not None:
        pytest.skip(sentence)
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is not None:
        yield found
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    directory = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(directory / "tmp"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    spark = session_of(TESTS, "local[2]", settings, "OFF")
    yield spark
    spark.stop()


@pytest.fixture
def pipeline(
    pipeline_cluster: Cluster, pipeline_spark: SparkSession, tmp_path: Path
) -> Iterator[Callable[..., PipelineTest]]:
    """``pipeline(file, **variables)``: the job with ``KAFKA`` and ``DATA`` of this test, and `variables`."""
    options = cluster_options({"kafka.bootstrap.servers": pipeline_cluster.bootstrap})
    cluster = options.connect()
    before = cluster.topics().keys()
    writes = SinkOptions(options)
    known = set(token_ledger.keys(writes))

    def make(file: str | Path, **variables: str) -> PipelineTest:
        environment = {"KAFKA": pipeline_cluster.bootstrap, "DATA": str(tmp_path), **variables}
        job = load(str(file), {**os.environ, **environment})
        return PipelineTest(job, pipeline_spark, environment)

    yield make
    for key in sorted(set(token_ledger.keys(writes)) - known):
        # A later test may run a job of the same name with a checkpoint of its own.
        TokenLedger(writes, key).forget()
    _delete(cluster, sorted(cluster.topics().keys() - before))


def _delete(cluster: ClusterClient, names: list[str]) -> None:
    """Topics that the cluster keeps for itself stay."""
    names = [name for name in names if not name.startswith("__")]
    if names:
        request = delete_topics_request.DeleteTopicsRequest(
            topics=[delete_topics_request.DeleteTopicState(name=name) for name in names],
            timeout_ms=DELETE_MS,
        )
        cluster.call_any(request, DeleteTopicsResponse)
        for name in names:
            cluster.forget(name)
