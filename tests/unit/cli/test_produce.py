"""A command that writes records ends at a failure, also where its input never ends."""

from __future__ import annotations

from itertools import repeat
from types import SimpleNamespace
from typing import Any

from barnabas.cli.commands.produce import TURN_RECORDS, _write
from barnabas.client.records import ProducerRecord


class FailingWriter:
    """Its first record is refused as soon as the loop runs."""

    def __init__(self) -> None:
        self.sent = self.acknowledged = 0
        self.failure: Exception | None = None

    def send(self, record: ProducerRecord) -> None:
        self.sent += 1


def test_a_failure_ends_the_reading_of_an_endless_input() -> None:
    writer: Any = FailingWriter()

    def run_for(_: float) -> None:
        writer.failure = ValueError("refused")

    connected: Any = SimpleNamespace(run_for=run_for)
    _write(connected, writer, repeat(b"y"), lambda line: ProducerRecord("t", line), is_shown=False)
    assert writer.sent == TURN_RECORDS
