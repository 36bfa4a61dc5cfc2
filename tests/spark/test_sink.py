"""Writing topics with Spark: each row once, also where tasks, batches or the driver run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.pipeline.each_batch import publish_each_batch
from barnabas.pipeline.offsets import LATEST
from barnabas.pipeline.options import ClusterOptions, endpoints
from barnabas.pipeline.write.prepared import participants
from barnabas.types import TopicPartition
from tests.spark.conftest import MakeTopic
from tests.spark.copy_job import copy
from tests.spark.topics import read, write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


KILL_S = 150
"""How long a Spark program may take to come up on a busy machine."""


def append(frame: DataFrame, bootstrap: str, **options: Any) -> None:
    writer = frame.write.format("barnabas").mode("append")
    writer.option("kafka.bootstrap.servers", bootstrap).options(**options).save()


def values_in(bootstrap: str, topic: str) -> list[int]:
    return sorted(int(each.value or b"-1") for each in read(bootstrap, topic))


def test_a_batch_write_lands_once_in_the_partitions_of_its_keys(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    by_spark, by_client = make_topic(3), make_topic(3)
    frame = spark.range(5000).selectExpr("cast(id as string) key", "cast(id as string) value")
    append(frame, bootstrap, topic=by_spark, **{"kafka.compression.type": "zstd"})
    assert values_in(bootstrap, by_spark) == list(range(5000))
    write(bootstrap, by_client, (b"%d" % n for n in range(5000)), partitioner="murmur2_random")
    assert {(each.partition, each.key) for each in read(bootstrap, by_spark)} == {
        (each.partition, each.key) for each in read(bootstrap, by_client)
    }


def test_columns_choose_topic_and_partition(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topics = [make_topic(2), make_topic(2)]
    frame = spark.range(100).selectExpr(
        "cast(id as string) value",
        f"if(id % 2 = 0, '{topics[0]}', '{topics[1]}') topic",
        "cast(1 as int) partition",
    )
    append(frame, bootstrap)
    for parity, topic in enumerate(topics):
        assert values_in(bootstrap, topic) == list(range(parity, 100, 2))
        assert {each.partition for each in read(bootstrap, topic)} == {1}


def test_a_task_that_is_retried_lands_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Half of the rows, then an error: in the first attempt of each task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for each in batches:
            if context.attemptNumber() == 0:
                yield each.slice(0, each.num_rows // 2)
                raise RuntimeError("the first attempt fails")
            yield each

    frame = spark.range(4000).selectExpr("cast(id as string) value")
    rows = frame.mapInArrow(fail_once, "value string")
    append(rows, bootstrap, topic=topic, delivery="exactly-once")
    assert values_in(bootstrap, topic) == list(range(4000))
    # At least once, what the first attempts had sent is there twice, and nothing is missing.
    append(rows, bootstrap, topic=topic)
    assert set(values_in(bootstrap, topic)) == set(range(4000))
    assert len(values_in(bootstrap, topic)) >= 8000


@pytest.mark.long
def test_a_worker_that_is_killed_in_mid_write_leaves_no_transaction(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    """Every Python worker of the first attempts is killed, once the sink has sent some of its rows."""
    topic = make_topic(2)
    cluster = ClusterOptions(endpoints(bootstrap)).connect()

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, each in enumerate(batches):
            yield each
            if context.attemptNumber() == 0 and number == 6:
                daemon = os.getppid()
                for child in Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)

    rows = spark.range(0, 160_000, 1, 2).selectExpr("concat(id, repeat('x', 500)) value")
    frame = rows.mapInArrow(kill_once, "value string")
    name = f"killed-{topic}"
    named = {"txnAppId": name, "txnVersion": "0", "taskTransactions": "always"}
    append(frame, bootstrap, topic=topic, **named)
    landed = Counter(int((each.value or b"").rstrip(b"x")) for each in read(bootstrap, topic))
    assert landed == Counter(range(160_000))
    ends = cluster.list_offsets({TopicPartition(topic, each): LATEST for each in (0, 1)})
    assert sum(each.offset for each in ends.values()) > 161_000  # aborted rows are there too
    assert participants.list_open(cluster, f"barnabas-{name}") == []


def test_tasks_always_in_transactions_without_a_name_are_refused(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    frame = spark.range(10).selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match="taskTransactions=always is not possible"):
        always = {"delivery": "exactly-once", "taskTransactions": "always"}
        append(frame, bootstrap, topic=topic, **always)
    assert read(bootstrap, topic) == []


def test_a_failed_write_leaves_nothing(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    frame = spark.range(1000).selectExpr("cast(id as string) value", "if(id = 999, 7, 0) partition")
    with pytest.raises(Exception, match="partition 7"):
        append(frame, bootstrap, topic=topic, delivery="exactly-once")
    assert read(bootstrap, topic) == []


def test_an_update_stream_by_foreach_batch_lands_each_batch_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    publish = publish_each_batch(
        {"kafka.bootstrap.servers": bootstrap, "topic": topic},
        application="updates",
        staging=str(tmp_path),
    )
    frame = spark.range(300).selectExpr("cast(id as string) value")
    for batch in (0, 0, 1, 0, 1):
        publish(
            frame.selectExpr(f"cast(value + {300 * batch} as int) v").selectExpr(
                "cast(v as string) value"
            ),
            batch,
        )
    assert values_in(bootstrap, topic) == list(range(600))


def test_a_stream_in_complete_mode_appends_whole_results(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(1)
    write(bootstrap, source, (b"%d" % n for n in range(90)))
    frame = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        frame.selectExpr("cast(cast(value as string) as int) % 3 as k")
        .groupBy("k")
        .count()
        .selectExpr("cast(k as string) key", "cast(count as string) value")
        .writeStream.format("barnabas")
        .outputMode("complete")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()  # raises what ended it
    assert {each.key: each.value for each in read(bootstrap, target)} == {
        b"0": b"30", b"1": b"30", b"2": b"30"
    }  # fmt: skip


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The job; afterwards driver, JVM and workers are gone."""
    job = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.copy_job", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield job
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def publishes(job: subprocess.Popen[bytes], directory: Path, batch: int) -> bool:
    """Whether batch `batch`, or one behind it, is under way before the job has ended: its manifest is there,
    or the batch before it is done."""
    checkpoint = directory / "checkpoint"
    deadline = time.monotonic() + KILL_S
    while job.poll() is None and time.monotonic() < deadline:
        if any(int(each.stem) >= batch for each in checkpoint.glob("barnabas/*/*.manifest")):
            return True
        if (checkpoint / "commits" / str(batch)).exists():
            return True
        time.sleep(0.001)
    return False


@pytest.mark.parametrize(
    "delivery",
    [
        "exactly-once",
        pytest.param("manifest", marks=pytest.mark.long),
        pytest.param("tasks", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_is_killed_while_it_publishes_lands_each_row_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, delivery: str
) -> None:
    """The next one runs in another process."""
    source, target = make_topic(2), make_topic(3)
    write(bootstrap, source, (b"%d" % n for n in range(6_000)))
    arguments = (bootstrap, source, target, str(tmp_path), delivery)
    with running(*arguments) as job:
        assert publishes(job, tmp_path, batch=1)
    copy(spark, *arguments)
    assert values_in(bootstrap, target) == list(range(6_000))
