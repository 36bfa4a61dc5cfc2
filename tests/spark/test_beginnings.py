"""Jobs on topics that other programs make, delete, shorten and grow while the job is away or starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.spark.commands import Command
from tests.spark.conftest import MakeTopic
from tests.spark.topics import known_everywhere, read, write

HEAD = """
name = "job"
checkpoint = "{directory}/checkpoint"

[cluster]
kafka.bootstrap.servers = "{bootstrap}"

[source]
{source}
"""
FROM_EARLIEST = """
[source.options]
startingOffsets = "earliest"
failOnDataLoss = {strict}
"""
TO_TABLE = """
[[sink]]
parquet = "{directory}/table"
"""
TO_TOPIC = """
[[sink]]
topic = "{target}"
"""
WITH_DEAD_LETTERS = """
[source.options]
value.format = "json"
value.schema = "n BIGINT"

[[sink]]
parquet = "{directory}/table"
land = {land}

[dead_letters]
topic = "{dead}"
"""


class Job:
    """Runs of one job by ``barnabas pipeline run``."""

    def __init__(self, command: Command, directory: Path) -> None:
        self._command = command
        self.directory = directory

    def run(self, text: str, ends_with: int) -> str:
        file = self.directory / "job.toml"
        file.write_text(text)
        return self._command("run", str(file), "--available-now", ends_with=ends_with)

    def ends_well(self, text: str) -> None:
        self.run(text, 0)

    def fails(self, text: str, *sentences: str) -> None:
        said = self.run(text, 1)
        for sentence in sentences:
            assert sentence in said, said[-3000:]


@pytest.fixture
def job(command: Command, tmp_path: Path) -> Job:
    return Job(command, tmp_path)


def landed(directory: Path) -> list[int]:
    """The numbers that are values of the table."""
    table = ds.dataset(directory / "table", format="parquet").to_table(columns=["value"])
    return sorted(int(value) for value in table["value"].to_pylist())


def limit_messages(admin: AdminClient, topic: str, size: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def make_again(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 30
    while topic in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
    admin.create_topics([NewTopic(topic, 1, -1)])[topic].result(30)


@contextmanager
def steady_records(bootstrap: str, topic: str) -> Iterator[None]:
    """Good and bad records by turns, as fast as they come, until the block ends."""
    ends = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})

    def produce() -> None:
        number = 0
        while not ends.is_set():
            value = b'{"n": %d}' % number if number % 2 else b"bad %d" % number
            producer.produce(topic, value=value, partition=0)
            number += 1
            producer.poll(0.01)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
        assert producer.flush(30) == 0


@pytest.mark.parametrize("land", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_each_record_that_comes_while_a_job_starts_is_a_row_or_a_dead_letter(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, job: Job, land: str
) -> None:
    """The job begins at the end, as it does where no option says otherwise."""
    source, dead = make_topic(1), make_topic(1)
    write(bootstrap, source, [b'{"n": 0}'] * 10, partition=0)
    text = (HEAD + WITH_DEAD_LETTERS).format(
        directory=tmp_path,
        bootstrap=bootstrap,
        source=f'topics = ["{source}"]',
        dead=dead,
        land=land,
    )
    with steady_records(bootstrap, source):
        job.ends_well(text)
    job.ends_well(text)
    table = ds.dataset(tmp_path / "table", format="parquet").to_table(columns=["offset"])
    rows = table["offset"].to_pylist()
    letters = [
        int(dict(record.headers)["__connect.errors.offset"] or b"")
        for record in read(bootstrap, dead)
    ]
    end = read(bootstrap, source)[-1].offset + 1
    assert len(rows) > 10 and len(letters) > 10
    assert sorted(rows + letters) == list(range(min(rows + letters), end))


@pytest.mark.long
def test_dead_letters_that_a_job_gets_later_begin_where_the_job_continues(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, job: Job
) -> None:
    source, dead = make_topic(1), make_topic(1)
    text = (HEAD + WITH_DEAD_LETTERS).format(
        directory=tmp_path,
        bootstrap=bootstrap,
        source=f'topics = ["{source}"]',
        dead=dead,
        land="false",
    )
    job.ends_well(text.partition("[dead_letters]")[0])
    write(bootstrap, source, [b'{"n": 1}'])
    job.ends_well(text.partition("[dead_letters]")[0])
    write(bootstrap, source, [b"bad", b'{"n": 2}'])
    job.ends_well(text)
    assert [record.value for record in read(bootstrap, dead)] == [b"bad"]


def test_a_first_batch_that_is_repeated_begins_where_it_began(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic, tmp_path: Path, job: Job
) -> None:
    """Retention deletes records between its runs, and a partition and a topic appear."""
    source, target = make_topic(1), make_topic(1)
    limit_messages(admin, target, 200)
    write(bootstrap, source, [b"%d" % n for n in range(10)] + [b"1" + b"0" * 2_000])
    pattern = f'topic_pattern = "{source}.*"'
    text = (HEAD + FROM_EARLIEST + TO_TOPIC).format(
        directory=tmp_path, bootstrap=bootstrap, source=pattern, target=target, strict="true"
    )
    job.fails(text, "MESSAGE_TOO_LARGE")
    admin.create_partitions([NewPartitions(source, 2)])[source].result(30)
    admin.create_topics([NewTopic(f"{source}-new", 1, -1)])[f"{source}-new"].result(30)
    known_everywhere(bootstrap, source, 2)
    write(bootstrap, source, [b"20"], partition=1)
    write(bootstrap, f"{source}-new", [b"30"])
    limit_messages(admin, target, 1_000_000)
    where = TopicPartition(source, 0, 4)
    admin.delete_records([where])[where].result(30)
    job.fails(text, f"{source}-0 [0, 4)")
    job.ends_well(text.replace("failOnDataLoss = true", "failOnDataLoss = false"))
    found = sorted(int(record.value or b"") for record in read(bootstrap, target))
    assert found == [*range(4, 10), 20, 30, 10**2_000]


def test_a_topic_that_is_made_again_between_runs_is_read_whole(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic, tmp_path: Path, job: Job
) -> None:
    source = make_topic(1)
    write(bootstrap, source, [b"%d" % n for n in range(10)])
    text = (HEAD + FROM_EARLIEST + TO_TABLE).format(
        directory=tmp_path, bootstrap=bootstrap, source=f'topics = ["{source}"]', strict="true"
    )
    job.ends_well(text)
    make_again(admin, source)
    write(bootstrap, source, [b"%d" % n for n in range(50, 80)])
    job.fails(text, "the topic was deleted and created again")
    job.ends_well(text.replace("failOnDataLoss = true", "failOnDataLoss = false"))
    assert landed(tmp_path) == [*range(10), *range(50, 80)]
