"""Spark Declarative Pipelines, from pip alone: the pipeline of docs/spark.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from barnabas.pipeline.workers.compiled_pyspark import compiled_pyspark
from barnabas.testing.cluster import Cluster
from tests.docs.blocks import Reader, blocks
from tests.spark.loopback_session import LOOPBACK
from tests.spark.topics import read, write

pytest.importorskip("grpc_status", reason="pip install 'barnabas[connect]'")
pytest.importorskip("yaml", reason="pip install 'barnabas[connect]'")
RUN_S = 600
pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3 * RUN_S)]
ORDERS = 10
SPEC = """
name: orders
storage: file://{directory}/storage
libraries:
  - glob:
      include: transformations/**
"""
# As in the tutorial of Spark's guide: a view over the table of a stream, and a table that SQL makes of it.
BY_STATE = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

@dp.materialized_view
def orders_by_state() -> DataFrame:
    states = spark.table("orders").selectExpr("get_json_object(cast(value as string), '$.state') as state")
    return states.groupBy("state").count()
"""
SQL = """
CREATE STREAMING TABLE small_orders
AS SELECT offset, value FROM STREAM orders WHERE get_json_object(cast(value as string), '$.id') < 5;
"""


def run(directory: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    settings = [word for pair in LOOPBACK.items() for word in ("--conf", "=".join(pair))]
    with compiled_pyspark(environment):
        done = subprocess.run(
            [f"{environment['SPARK_HOME']}/bin/spark-pipelines", "run", "--remote", "local[2]", *settings],
            env=environment, cwd=directory, capture_output=True, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_the_declarative_pipeline_of_the_page_writes_each_row_once(tmp_path: Path) -> None:
    (block,) = (block for block in blocks("docs/spark.md") if "declarative" in block.words)
    transformations = tmp_path / "transformations"
    transformations.mkdir()
    with Cluster(nodes=1) as cluster:
        reader = Reader(cluster, tmp_path)
        reader.shell("barnabas topics create orders loud-orders -p 2 -r 1")
        (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(directory=tmp_path))
        (transformations / "orders.py").write_text(reader.here(block.text))
        (transformations / "by_state.py").write_text(BY_STATE)
        (transformations / "small.sql").write_text(SQL)
        orders = ({"id": n, "state": "ca" if n % 2 else "ny"} for n in range(ORDERS))
        write(cluster.bootstrap, "orders", (json.dumps(order).encode() for order in orders))
        run(tmp_path)  # once: the catalog of spark-pipelines from pip is in memory
        loud = [
            json.loads(record.value or b"") for record in read(cluster.bootstrap, "loud-orders")
        ]
    assert sorted((order["ID"], order["STATE"]) for order in loud) == [
        (n, "CA" if n % 2 else "NY") for n in range(ORDERS)
    ]
    tables = tmp_path / "spark-warehouse"
    counts = pq.read_table(tables / "orders_by_state").to_pylist()
    assert {found["state"]: found["count"] for found in counts} == {
        "ca": ORDERS // 2,
        "ny": ORDERS // 2,
    }
    assert pq.read_table(tables / "small_orders").num_rows == 5
