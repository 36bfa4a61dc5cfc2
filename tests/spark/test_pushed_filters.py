"""Filters of a batch query reach the reader where the session pushes them, and change no result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tests.spark.conftest import MakeTopic
from tests.spark.test_source import batch, numbers, values_of
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = "spark.sql.python.filterPushdown.enabled"


def test_filters_by_partition_offset_and_time_leave_out_what_they_exclude(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        first = 100 * partition
        write(bootstrap, topic, numbers(first, first + 20), partition=partition)
    oldest = min(each.timestamp_ms for each in read(bootstrap, topic))
    since = F.timestamp_millis(F.lit(oldest))
    after = F.timestamp_millis(F.lit(oldest + 3_600_000))
    found = {}
    for enabled in ("false", "true"):
        spark.conf.set(CONF, enabled)
        try:
            # Otherwise both partitions are small enough for one task.
            options = {"pushFilters": "true", "maxRecordsPerPartition": "20"}
            frames = [batch(spark, bootstrap, subscribe=topic, **options) for _ in "1234"]
            narrow = frames[0].where("partition = 1 and offset >= 5 and offset < 8")
            found[enabled] = [
                values_of(narrow),
                values_of(frames[1].where(F.col("timestamp") >= since)),
                values_of(frames[2].where(F.col("timestamp") > after)),
                values_of(frames[3].where("partition = 1 or offset = 3")),
            ]
            tasks = narrow.rdd.getNumPartitions()
        finally:
            spark.conf.unset(CONF)
        assert tasks == (1 if enabled == "true" else 2)
    everything = sorted(numbers(0, 20) + numbers(100, 120))
    mixed = sorted([*numbers(3, 4), *numbers(100, 120)])
    assert found["false"] == [numbers(105, 108), everything, [], mixed]
    assert found["true"] == found["false"]


def test_a_frame_of_several_queries_keeps_its_rows_where_the_session_pushes(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    """pyspark keeps pushed filters with the frame: none are taken that no option asks for."""
    topic = make_topic(1)
    write(bootstrap, topic, numbers(0, 20))
    spark.conf.set(CONF, "true")
    try:
        frame = batch(spark, bootstrap, subscribe=topic)
        assert values_of(frame.where("offset >= 5 and offset < 8")) == numbers(5, 8)
        assert values_of(frame) == numbers(0, 20)
    finally:
        spark.conf.unset(CONF)
