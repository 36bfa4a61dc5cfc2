"""A command that writes records says what it waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.records.record_writer import RecordWriter
from barnabas.client.producers.producer import ProducerSettings


@pytest.mark.parametrize(
    ("in_time", "told"),
    [(True, ""), (False, "3 records not acknowledged yet: trying for up to 120 seconds\n")],
)
def test_late_acknowledgements_are_announced(
    in_time: bool,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a word a person takes a cluster that is away for a command that hangs."""
    flushed = object()
    client = SimpleNamespace(tasks=SimpleNamespace(start=lambda flush, _: flushed))
    waited: list[object] = []
    connected: Any = SimpleNamespace(
        client=client, run_until=lambda done, for_ms: in_time, wait=waited.append
    )
    producer = SimpleNamespace(settings=ProducerSettings(), flush=lambda: None)
    monkeypatch.setattr(
        "barnabas.cli.records.record_writer.Producer", lambda client, settings: producer
    )
    writer = RecordWriter(connected, ProducerSettings())
    writer.sent = 3
    writer.finish()
    assert (waited, capsys.readouterr().err) == ([flushed], told)
