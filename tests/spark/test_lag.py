"""Where a query is, for people and tools: in its group, and in its progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from barnabas.pipeline.read.lag import BEHIND, PREFIX
from barnabas.pipeline.read.lag_listener import LagListener
from tests.spark.conftest import MakeTopic
from tests.spark.topics import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result(30)
    return {each.partition: each.offset for each in found.topic_partitions}


def test_each_batch_commits_its_offsets_to_the_groups_of_the_query(
    spark: SparkSession,
    bootstrap: str,
    admin: AdminClient,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        write(bootstrap, topic, (b"%d" % n for n in range(50)), partition=partition)
    listener = LagListener({"kafka.bootstrap.servers": bootstrap})
    spark.streams.addListener(listener)
    try:
        query = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 40)
            .option("groupIdPrefix", topic)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progresses: list[Any] = query.recentProgress
        query_id = str(query.id)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)
    assert committed(admin, f"{PREFIX}{query_id}") == {0: 50, 1: 50}
    # A source learns of a batch's end when the next one begins.
    assert set(committed(admin, f"{topic}-{query_id}").values()) <= {40, 50}
    assert committed(admin, f"{topic}-{query_id}")
    reports = [json.loads(each.sources[0].latestOffset) for each in progresses if each.numInputRows]
    assert [each[BEHIND]["offsets"] for each in reports] == [60, 20, 0]
    assert all(each[topic] == {"0": 50, "1": 50} for each in reports)
