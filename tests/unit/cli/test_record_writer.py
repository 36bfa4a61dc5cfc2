"""A command that writes records says what it waits for."""

from __future__ import annotations

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.records.record_writer import RecordWriter
from barnabas.client.producers.producer import ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host import client as module
from barnabas.host.client import connect
from barnabas.wire.errors import KafkaError


@pytest.mark.parametrize(
    ("slow_s", "announced"),
    [(30.0, ""), (0.0, "1 record not acknowledged yet: trying for up to 0 seconds\n")],
)
def test_late_acknowledgements_are_announced(
    slow_s: float,
    announced: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a word a person takes a cluster that is away for a command that hangs."""
    monkeypatch.setattr(module, "SLOW_S", slow_s)
    with connect(f"127.0.0.1:{FreePorts().take(1)[0]}") as connected:
        writer = RecordWriter(connected, ProducerSettings(delivery_timeout_ms=300.0))
        writer.send(ProducerRecord("t", b""))
        with pytest.raises(KafkaError, match="did not appear in time"):
            writer.finish()
    assert capsys.readouterr().err == announced
