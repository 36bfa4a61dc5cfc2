"""Mirror and replay: records with their timestamps, each once; groups' offsets there. Audit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.audit.audit_run import AuditError, run_audit
from barnabas.pipeline.audit.replica_check import Finding
from barnabas.pipeline.jobs.job_file import Job, load, parse
from barnabas.pipeline.jobs.job_run import JobRun
from barnabas.pipeline.mirror.group_offsets import translated_offsets
from barnabas.pipeline.options import sink_options
from barnabas.testing.cluster import Cluster
from tests.spark.checkpoints import uncommit
from tests.spark.conftest import KEPT
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
BARNABAS = (sys.executable, "-m", "barnabas", "pipeline")
FEBRUARY_MS = 1_706_745_600_000
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def eastern() -> Iterator[Cluster]:
    with Cluster(nodes=1, settings=KEPT) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def east(eastern: Cluster) -> str:
    return eastern.bootstrap


def produce(bootstrap: str, days: range) -> None:
    """A record for each day of 2024 from the 1st of February on, in partition 1 of two."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for day in days:
        producer.produce(
            "flights",
            str(day),
            key=f"k{day}",
            partition=1,
            timestamp=FEBRUARY_MS + day * DAY_MS,
            headers=[("h", b"x")],
        )
    assert producer.flush(30) == 0


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "flights-app"})
    consumer.commit(offsets=[TopicPartition("flights", 1, offset)], asynchronous=False)
    consumer.close()


def run(name: str, spark: SparkSession, **environment: str) -> Job:
    job = load(str(EXAMPLES / name), environment)
    JobRun(job, spark, lambda line: None).run(available_now=True)
    return job


@pytest.mark.interop
@pytest.mark.long
def test_a_mirror_brings_records_once_and_offsets_of_groups(
    spark: SparkSession, east: str, bootstrap: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": east})
    admin.create_topics([NewTopic("flights", 2, 1)])["flights"].result(30)
    produce(east, range(-1, 4))
    commit(east, 3)
    environment = {"KAFKA": east, "TARGET": bootstrap, "DATA": str(tmp_path)}
    job = run("mirror.toml", spark, **environment)
    produce(east, range(4, 6))
    commit(east, 5)  # where the first batch ended
    uncommit(job.checkpoint, 0)
    run("mirror.toml", spark, **environment)
    mirrored = read(bootstrap, "east.flights")
    assert [each.value for each in mirrored] == [b"%d" % day for day in range(-1, 6)]
    assert {each.partition for each in mirrored} == {1}
    assert [each.timestamp_ms for each in mirrored] == [
        FEBRUARY_MS + day * DAY_MS for day in range(-1, 6)
    ]
    assert mirrored[0].headers == (("h", b"x"),)
    assert job.mirror is not None
    target = sink_options(job.mirror.target, streaming=False)
    (found,) = translated_offsets(target, "east", "flights-app").values()
    (checkpoint,) = found.values()
    assert (tuple(checkpoint.of), checkpoint.upstream) == (("east.flights", 1), 5)
    # The first record that the group has not read upstream is the first from there on.
    behind = [each.value for each in mirrored if each.offset >= checkpoint.downstream]
    assert behind == [b"4", b"5"]
    done = subprocess.run(
        [*BARNABAS, "offsets", str(EXAMPLES / "mirror.toml"), "--commit", "flights-app"],
        env={**environment, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "flights-app"})
    (committed,) = consumer.committed([TopicPartition("east.flights", 1)], timeout=30)
    consumer.close()
    assert committed.offset == checkpoint.downstream

    run("replay.toml", spark, KAFKA=east, DATA=str(tmp_path))
    run("replay.toml", spark, KAFKA=east, DATA=str(tmp_path))
    replayed = read(east, "flights-replayed")
    assert [(each.value, each.timestamp_ms) for each in replayed] == [
        (b"%d" % day, FEBRUARY_MS + day * DAY_MS) for day in range(6)
    ]


def audited(job: Job, spark: SparkSession, tell: Callable[[Finding], None]) -> tuple[int, int]:
    assert job.audit is not None
    return run_audit(job.name, job.audit, job.source.options, spark, tell)


@pytest.mark.interop
@pytest.mark.long
def test_an_audit_reads_all_replicas_and_names_what_differs(
    spark: SparkSession, bootstrap: str, east: str, eastern: Cluster, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("audited", 2, 3)])["audited"].result(30)
    write(bootstrap, "audited", (b"%d" % n for n in range(500)), partition=0)
    environment = {"KAFKA": bootstrap, "DATA": str(tmp_path)}
    live = (EXAMPLES / "audit.toml").read_text().replace('"flights"', '"audited"')
    said: list[Finding] = []
    replicas, records = audited(parse("audit.toml", live, environment), spark, said.append)
    assert (replicas, records, said) == (6, 1500, [])
    report = json.loads((tmp_path / "audit.json").read_text())
    assert [each["compared"] for each in report["replicas"]] == [True] * 6
    # A copy of a node's folder, in which a bit has rotted.
    topic = f"audited-{tmp_path.name[-4:]}"
    write(east, topic, (b"%d" % n for n in range(100)), partition=0)
    (directory,) = eastern.directory.rglob(f"{topic}-0")
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy / directory.name)
    (log,) = (copy / directory.name).glob("*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    original = tmp_path / "original"
    shutil.copytree(directory, original / directory.name)
    text = f'kind = "audit"\nname = "a"\n[audit]\nfolders = ["{original}", "{copy}"]\n'
    with pytest.raises(AuditError, match="1 findings in 2 replicas"):
        audited(parse("audit.toml", text, {}), spark, said.append)
    line = str(*said)
    assert line.startswith(f"{topic}-0 on {copy}, {log} at ")
    assert line.endswith("the CRC does not match")
