"""One file with two sources, steps that read each other, windows, a join of streams, and dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.pipeline.testing import PipelineTest

pytest_plugins = ["barnabas.pipeline.testing"]
pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]
HERE = Path(__file__).parent


def click(number: int, page: str, time: str) -> dict[str, str]:
    return {"id": str(number), "user": f"u{number}", "page": page, "ts": f"2024-03-01T{time}Z"}


def test_a_clickstream_is_a_table_counts_a_join_and_dead_letters(
    pipeline: Callable[..., PipelineTest],
) -> None:
    job = pipeline(HERE / "clickstream.toml")
    first = click(1, "/home", "12:00:10")
    job.feed("clicks", first, click(2, "/home", "12:00:40"), first, "{broken")
    job.feed("clicks", click(3, "/cart", "12:01:05"))
    job.feed("purchases", {"user": "u3", "amount": 9.5, "ts": "2024-03-01T12:03:00Z"})
    job.feed("purchases", {"user": "u2", "amount": 1, "ts": "2024-03-01T12:30:00Z"})  # too late
    job.run()
    rows = sorted((each["id"], each["page"], str(each["day"])) for each in job.rows())
    assert rows == [
        (str(n), page, "2024-03-01") for n, page in enumerate(("/home",) * 2 + ("/cart",), 1)
    ]
    assert job.values("clicks-dead") == ["{broken"]
    (bought,) = [json.loads(each or "") for each in job.values("purchases-after-clicks")]
    assert (bought["page"], bought["amount"]) == ("/cart", 9.5)
    assert job.values("clicks-per-minute") == []  # clicks of these minutes may still come

    # Twenty minutes later: the watermark is behind the first windows, and they are final.
    job.feed("clicks", click(4, "/home", "12:21:00"), first)
    job.run()
    counts = [json.loads(each or "") for each in job.values("clicks-per-minute")]
    assert sorted((each["minute"][11:16], each["page"], each["clicks"]) for each in counts) == [
        ("12:00", "/home", 2),
        ("12:01", "/cart", 1),
    ]
    assert sorted(each["id"] for each in job.rows()) == ["1", "2", "3", "4"]
