"""``barnabas pipeline`` in the session of the tests: the whole command, but no JVM of its own."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any
from unittest import mock

from barnabas.cli.main import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Command = Callable[..., str]
"""Runs ``barnabas pipeline`` with these words, which has to end with the status `ends_with`; says what it
printed."""


def command_in(spark: SparkSession) -> Command:
    """The command takes the session that runs, and it neither stops it nor leaves listeners in it."""

    def barnabas(*words: str, ends_with: int = 0) -> str:
        said = io.StringIO()
        with _session_stays(spark), redirect_stdout(said), redirect_stderr(said):
            status = main(["pipeline", *words])
        assert status == ends_with, said.getvalue()[-3000:]
        return said.getvalue()

    return barnabas


@contextmanager
def _session_stays(spark: SparkSession) -> Iterator[None]:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQueryManager

    added: list[Any] = []
    add = StreamingQueryManager.addListener

    def add_noted(manager: StreamingQueryManager, listener: Any) -> None:
        added.append(listener)
        add(manager, listener)

    with (
        mock.patch.object(SparkSession, "stop"),
        mock.patch.object(StreamingQueryManager, "addListener", add_noted),
        mock.patch.dict(os.environ),
    ):
        try:
            yield
        finally:
            for listener in added:
                spark.streams.removeListener(listener)
