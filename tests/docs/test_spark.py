"""The Python of README.md, docs/spark.md and docs/pipelines.md as one program, and the ledger's commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from barnabas.testing.cluster import Cluster
from tests.docs.blocks import NOT_RUN, Block, Reader, blocks
from tests.docs.test_pipelines import A_TEST
from tests.unit.pipeline.formats.registry_server import Registry, registry_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["barnabas.pipeline.testing"]
PAGES = ("README.md", "docs/spark.md", "docs/pipelines.md")
DECLARATIVE = "declarative"
"""The word of a block that only ``spark-pipelines`` runs: see tests/spark/test_declarative_pipelines.py."""
WITH_REGISTRY = "registry"
"""The word of a block that asks a schema registry."""
REGISTRY = "https://registry:8081"
"""The registry of all pages."""
SCHEMA = {"type": "record", "name": "Flight", "fields": [{"name": "id", "type": "long"}]}
TOPICS = "flights loud-flights delays typed-flights flights-dead avro-flights"
PARTITIONS = "spark.sql.shuffle.partitions"
WAIT_S = 90.0


def python_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language == "python"]


def test_no_python_of_the_pages_is_left_out() -> None:
    assert not [block.title for block in python_blocks() if NOT_RUN in block.words]


def program(registry: Registry) -> str:
    here = [block for block in python_blocks() if not block.words & {A_TEST, DECLARATIVE}]
    assert sum(WITH_REGISTRY in block.words for block in here) == 2
    return "".join(block.text for block in here).replace(REGISTRY, registry.url)


@pytest.fixture
def reader(pipeline_cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(pipeline_cluster, tmp_path)
    reader.shell(f"barnabas topics create {TOPICS} -p 1 -r 1")
    yield reader
    reader.shell(f"barnabas topics delete {TOPICS} --yes")


@pytest.fixture
def spark(pipeline_spark: SparkSession) -> Iterator[SparkSession]:
    """The queries that a page starts end with its test, and so do the settings that it makes."""
    partitions = pipeline_spark.conf.get(PARTITIONS)
    yield pipeline_spark
    for query in pipeline_spark.streams.active:
        query.stop()
    pipeline_spark.conf.set(PARTITIONS, partitions)


@pytest.mark.process
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_spark_jobs_of_the_pages_land_their_records(reader: Reader, spark: SparkSession) -> None:
    reader.shell("printf 'a:on time\\nb:late\\n' | barnabas produce flights -k :")
    reader.shell("printf '{\"id\": 7}\\nbroken\\n' | barnabas produce typed-flights")
    with registry_server() as registry:
        registry.register("typed-flights-value", json.dumps(SCHEMA))
        names: dict[str, Any] = {}
        exec(reader.here(program(registry)), names)
        assert names["spark"] is spark
        assert set(registry.subjects) == {"typed-flights-value", "avro-flights-value"}
    wait_for(reader, spark, "loud-flights", ["LATE", "ON TIME"])
    wait_for(reader, spark, "delays", ["a\t1", "b\t1"])
    wait_for_table(reader.home / "data/tables/flights", spark, ["late", "on time"])
    wait_for(reader, spark, "flights-dead", ["broken"])
    assert "7\t" in reader.shell("barnabas consume avro-flights --exit --keys")
    for block in blocks("docs/spark.md"):
        if block.language == "sh" and NOT_RUN not in block.words:
            reader.shell(block.text)


def wait_for_table(table: Path, spark: SparkSession, values: list[str]) -> None:
    """A query has written these values to the Parquet table at `table`."""
    deadline = time.monotonic() + WAIT_S
    found: list[str] = []
    while found != values:
        assert time.monotonic() < deadline, (found, states(spark))
        time.sleep(0.2)
        if any(table.glob("batch=*")):
            rows = pq.read_table(table)["value"].to_pylist()
            found = sorted(value.decode() for value in rows)


def wait_for(reader: Reader, spark: SparkSession, topic: str, lines: list[str]) -> None:
    """A query writes `lines` to `topic`: none is missing, none is there twice."""
    keys = " --keys" if "\t" in lines[0] else ""
    consume = f"barnabas consume {topic} --from-beginning -n {len(lines)} --timeout {WAIT_S}{keys}"
    said = sorted(reader.shell(consume).splitlines())
    assert said == lines, states(spark)
    assert sorted(reader.shell(f"barnabas consume {topic} --exit{keys}").splitlines()) == lines


def states(spark: SparkSession) -> list[Any]:
    return [query.exception() or query.status for query in spark.streams.active]
