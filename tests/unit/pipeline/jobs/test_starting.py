"""A query whose Python process was late is started again; one that failed for another reason is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from pyspark.errors import PySparkException

from barnabas.pipeline.jobs.job_run import STARTS, WORKER_IS_LATE, started

LATE = f"[STREAM_FAILED] org.apache.spark.SparkException: {WORKER_IS_LATE}."


@dataclass
class FakeQuery:
    """A query that ends while it asks for offsets, or is beyond that."""

    error: str | None = None
    messages: list[str] = field(default_factory=lambda: ["Getting offsets from x", "Processing"])

    @property
    def isActive(self) -> bool:
        return self.error is None or len(self.messages) > 1

    @property
    def status(self) -> dict[str, str]:
        return {"message": self.messages.pop(0) if len(self.messages) > 1 else self.messages[0]}

    def exception(self) -> PySparkException | None:
        return None if self.error is None else PySparkException(self.error)


def starting(*outcomes: FakeQuery | PySparkException) -> tuple[Callable[[], FakeQuery], list[int]]:
    """A function that starts a query, and how often it was called."""
    calls: list[int] = []

    def start() -> FakeQuery:
        outcome = outcomes[min(len(calls), len(outcomes) - 1)]
        calls.append(len(calls))
        if isinstance(outcome, PySparkException):
            raise outcome
        return outcome

    return start, calls


@pytest.mark.slow
def test_a_query_whose_reader_is_late_is_started_again() -> None:
    well = FakeQuery()
    start, calls = starting(FakeQuery(LATE), well)
    assert started(start) is well
    assert len(calls) == 2


def test_a_query_whose_batch_function_is_late_is_started_again() -> None:
    well = FakeQuery()
    start, calls = starting(PySparkException(LATE), well)
    assert started(start) is well
    assert len(calls) == 2


def test_a_query_that_failed_for_another_reason_is_not_started_again() -> None:
    failed = FakeQuery("no such topic")
    start, calls = starting(failed)
    assert started(start) is failed
    start, more = starting(PySparkException("no such option"))
    with pytest.raises(PySparkException, match="no such option"):
        started(start)
    assert (len(calls), len(more)) == (1, 1)


def test_a_query_that_is_always_late_ends_with_what_spark_says() -> None:
    start, calls = starting(PySparkException(LATE))
    with pytest.raises(PySparkException, match=WORKER_IS_LATE):
        started(start)
    assert len(calls) == STARTS
