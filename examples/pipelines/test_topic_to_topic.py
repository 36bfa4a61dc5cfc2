"""How to test a job: take its file unchanged, feed records to a real cluster of one node, check the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.pipeline.testing import FedRecord, PipelineTest

pytest_plugins = ["barnabas.pipeline.testing"]
pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]
HERE = Path(__file__).parent


def test_flights_become_loud_once(pipeline: Callable[..., PipelineTest]) -> None:
    job = pipeline(HERE / "topic_to_topic.toml")
    job.feed(
        "flights", "ua 1", ("key", {"id": 2}), FedRecord("dl 3", timestamp_ms=1_700_000_000_000)
    )
    job.run()
    job.run()  # nothing new is there
    assert job.values("loud-flights") == ["DL 3", "UA 1", '{"ID": 2}']
    assert [each.key for each in job.records("loud-flights") if each.key] == [b"key"]


def test_flights_land_in_a_table(pipeline: Callable[..., PipelineTest]) -> None:
    job = pipeline(HERE / "topic_to_table.toml")
    job.feed("flights", ("ua", "1"), ("aa", "2"))
    job.run()
    rows = sorted((each["id"], each["flight"]) for each in job.rows())
    assert rows == [("aa", "2"), ("ua", "1")]
