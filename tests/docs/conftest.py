"""Tests of pages use the session of :mod:`tests.spark`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from barnabas.demo.spark_process import missing_java
from tests.spark.loopback_session import tests_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def pipeline_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    sentence = missing_java()
    if sentence is not None:
        pytest.skip(sentence)
    session = tests_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
