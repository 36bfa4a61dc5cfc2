"""``consume --share`` acknowledges what it printed, and says what becomes of the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.failure import Failure
from barnabas.cli.main import main
from barnabas.cli.records.record_json import to_json
from barnabas.cli.records.sharing import SharedPrinting, _print
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.records import DeliveredRecord
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError


class Registry:
    """It decodes what begins with g."""

    problem = ""

    def text_of(self, value: bytes) -> tuple[str | None, str]:
        return ("good", "") if value[:1] == b"g" else (None, "no schema")


class Consumer:
    def __init__(self) -> None:
        self.said: list[tuple[int, Acknowledge]] = []
        self.outcome: dict[TopicPartition, KafkaError | None] = {}

    def acknowledge(self, record: DeliveredRecord, kind: Acknowledge) -> None:
        self.said.append((record.offset, kind))

    def commit(self) -> dict[TopicPartition, KafkaError | None]:
        return self.outcome


def record(offset: int, value: bytes | None) -> DeliveredRecord:
    return DeliveredRecord("t", 0, offset, 1, None, value, (), 1)


@pytest.mark.parametrize("on_error", [Acknowledge.RELEASE, Acknowledge.REJECT])
def test_a_value_that_cannot_be_decoded_is_released_or_rejected(
    on_error: Acknowledge, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    registry: Any = Registry()
    consumer: Any = Consumer()
    records = [record(0, b"good"), record(1, b"bad"), record(2, None)]
    assert _print(consumer, records, SharedPrinting(to_json, on_error, registry)) == 2
    accept = Acknowledge.ACCEPT
    assert consumer.said == [(0, accept), (1, on_error), (2, accept)]
    printed = capfdbinary.readouterr()
    assert printed.out.count(b"\n") == 2 and b"bad" not in printed.out
    assert b"t-0, offset 1 is re" in printed.err and b"no schema" in printed.err


def test_nothing_is_acknowledged_where_the_registry_is_away() -> None:
    registry: Any = SimpleNamespace(text_of=lambda value: (None, "away"), problem="away")
    consumer: Any = Consumer()
    with pytest.raises(Failure, match="away"):
        _print(consumer, [record(0, b"v")], SharedPrinting(to_json, Acknowledge.REJECT, registry))
    assert consumer.said == []


def test_an_acknowledgement_that_failed_is_reported(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    consumer: Any = Consumer()
    consumer.outcome = {TopicPartition("t", 0): KafkaError(ErrorCode.INVALID_RECORD_STATE, "late")}
    _print(consumer, [record(0, b"v")], SharedPrinting(to_json, Acknowledge.RELEASE))
    assert b"t-0 may be delivered again" in capfdbinary.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--group", "g"], ["--from-beginning"], ["--offset", "3"], ["--partition", "0"],
        ["--filter-key", "k"], ["--exit"], ["--on-error", "retry"],
    ],
)  # fmt: skip
def test_options_that_a_share_group_has_no_use_for_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consume", "t", "--share", "s", "--bootstrap-server", "127.0.0.1:1", *words]) == 2
    assert capsys.readouterr().err
