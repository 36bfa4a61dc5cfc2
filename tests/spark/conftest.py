"""A cluster and one Spark session for all tests here; skipped with a word where Java is missing.

``BARNABAS_TEST_BOOTSTRAP=host:port`` runs them against a cluster that is there already, such as
Apache Kafka.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.demo.spark_process import missing_java
from barnabas.testing.cluster import Cluster
from tests.spark.commands import Command, command_in
from tests.spark.loopback_session import tests_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[[int], str]
KEPT = {"log.retention.ms": "-1"}
"""Settings of clusters whose records have times of years ago: a node deletes them 30 s after its start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = missing_java()
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(400))  # JVM and workers on a busy machine
            if missing is not None:
                item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given is not None:
        yield given
        return
    with Cluster(nodes=3, settings=KEPT) as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def make_topic(admin: AdminClient) -> MakeTopic:
    """Makes a topic of so many partitions and says its name."""

    def make(partitions: int) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, partitions, -1)])[name].result(30)
        return name

    return make


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A plain session: nothing of this project is registered in it. A task may fail twice."""
    session = tests_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def command(spark: SparkSession) -> Command:
    return command_in(spark)
