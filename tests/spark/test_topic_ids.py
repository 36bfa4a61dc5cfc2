"""A topic that was deleted and created again, and checkpoints that Spark's Kafka connector wrote."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from barnabas.pipeline.positions.losses import kept
from tests.spark.conftest import MakeTopic
from tests.spark.test_source import numbers
from tests.spark.topics import made_again, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, bootstrap: str, directory: Path, **options: Any) -> list[bytes]:
    """The values that a query which copies a topic to Parquet has landed so far."""
    frame = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
    )
    query = (
        frame.select("value")
        .writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    files = sorted((directory / "out").glob("*.parquet"))
    return sorted(each for file in files for each in pq.read_table(file)["value"].to_pylist())


def test_a_topic_created_again_is_not_read_from_its_middle(
    spark: SparkSession, bootstrap: str, admin: AdminClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    write(bootstrap, topic, numbers(0, 10))
    checkpoint = str(tmp_path / "checkpoint")
    options = {"subscribe": topic, "checkpointLocation": checkpoint}
    assert run(spark, bootstrap, tmp_path, **options) == numbers(0, 10)
    made_again(admin, topic)
    write(bootstrap, topic, numbers(50, 80))
    with pytest.raises(Exception, match="deleted and created again"):
        run(spark, bootstrap, tmp_path, **options)
    landed = run(spark, bootstrap, tmp_path, failOnDataLoss="false", **options)
    assert landed == sorted(numbers(0, 10) + numbers(50, 80))
    assert [(each.partition, each.begin) for each in kept(checkpoint)] == [(0, 10)]


def test_a_checkpoint_of_sparks_kafka_connector_is_continued(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The files are those that ``format("kafka")`` leaves after its first batch."""
    topic = make_topic(2)
    write(bootstrap, topic, numbers(0, 20), partition=0)
    write(bootstrap, topic, numbers(100, 130), partition=1)
    checkpoint = tmp_path / "checkpoint"
    planned = {"batchWatermarkMs": 0, "batchTimestampMs": 1_750_000_000_000, "conf": {}}
    first = json.dumps({topic: {"1": 7, "0": 12}}, separators=(",", ":"))
    initial = json.dumps({topic: {"1": 0, "0": 0}}, separators=(",", ":"))
    files = {
        "metadata": json.dumps({"id": str(uuid.uuid4())}),
        "offsets/0": f"v1\n{json.dumps(planned)}\n{first}",
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": f"v1\n{initial}",
    }
    for name, text in files.items():
        path = checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    landed = run(spark, bootstrap, tmp_path, subscribe=topic)
    assert landed == sorted(numbers(12, 20) + numbers(107, 130))
    version, _, offsets = (checkpoint / "offsets/1").read_text().split("\n")
    assert version == "v1"
    assert json.loads(offsets) == {topic: {"0": 20, "1": 30}}
    assert (checkpoint / "sources/0/0").read_text() == files["sources/0/0"]
