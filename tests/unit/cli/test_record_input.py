"""What the lines of ``barnabas produce`` become."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.cli.commands.produce import settings_of
from barnabas.cli.failure import Failure
from barnabas.cli.main import main
from barnabas.cli.records import record_writer as module
from barnabas.cli.records.input_lines import contents_of, lines_of, split
from barnabas.cli.records.record_input import RecordInput, parse_headers, partitioner
from barnabas.cli.records.record_writer import RecordWriter
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.producer import ProducerSettings
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.host.client import Connected
from barnabas.wire.errors import ErrorCode, KafkaError


def test_a_line_has_a_key_before_its_separator() -> None:
    form = RecordInput("t", b"::", null=b"NULL")
    assert form.record(b"k::v::w") == ProducerRecord("t", b"v::w", b"k")
    assert form.record(b"NULL::NULL") == ProducerRecord("t", None, None)
    with pytest.raises(ValueError, match="a line without '::'"):
        form.record(b"v")
    assert RecordInput("t", b":", key=b"k").record(b"v").key == b"k"


def test_a_line_has_the_headers_of_the_options() -> None:
    headers = parse_headers(["a=b=c", "n", "e="])
    assert headers == (("a", b"b=c"), ("n", None), ("e", b""))
    form = RecordInput("t", is_json=True, key=b"d", headers=headers, partition=3)
    written = form.record(b'{"value": "v", "headers": [["h", "x"]]}')
    assert written == ProducerRecord("t", b"v", b"d", 3, None, (("h", b"x"), *headers))
    with pytest.raises(ValueError, match="a header is NAME=VALUE"):
        parse_headers(["=v"])


def test_a_line_that_is_no_json_is_shown() -> None:
    form = RecordInput("t", is_json=True)
    for line in (b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(ValueError, match="not a JSON record: b'"):
            form.record(line)


def test_a_partitioner_chooses_as_kafkas_or_librdkafkas_clients() -> None:
    keyed, bare = ProducerRecord("t", b"", b"key"), ProducerRecord("t", b"")
    assert partitioner("murmur2", 10, 0)(keyed) == 1
    assert partitioner("crc32", 10, 0)(keyed) == 7
    assert partitioner("murmur2", 10, 0)(bare) is partitioner("crc32", 10, 0)(bare) is None
    in_turn = partitioner("round-robin", 3, 0)
    assert [in_turn(bare) for _ in range(4)] == [0, 1, 2, 0]
    chance = partitioner("random", 3, 0)
    assert {chance(keyed) for _ in range(100)} == {0, 1, 2}
    with pytest.raises(ValueError, match="--partitioner is one of murmur2"):
        partitioner("md5", 1, 0)


def test_lines_are_cut_at_the_delimiter_wherever_a_chunk_ends(tmp_path: Path) -> None:
    data = b"a--b----c-"
    for size in range(1, len(data) + 1):
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        assert list(split(iter(chunks), b"--")) == [b"a", b"b", b"", b"c-"]
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"1\r\n\n\xff")
    other.write_bytes(b"2\n")
    assert list(lines_of([file, other])) == [b"1\r", b"", b"\xff", b"2"]
    assert list(contents_of([file, other])) == [b"1\r\n\n\xff", b"2\n"]
    with pytest.raises(Failure, match="cannot be read: No such file"):
        list(lines_of([tmp_path / "none"]))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--acks", "2"], "--acks is all, 1 or 0"),
        (["--compression", "lzma"], "--compression is one of none, gzip"),
        (["--partitioner", "x"], "--partitioner is one of"),
        (["--whole"], "--whole needs files"),
        (["--transaction", "--acks", "1"], "a transaction needs --acks all"),
        (["--delimiter", ""], "--delimiter is at least one byte"),
        (["--key-separator", ""], "--key-separator is at least one byte"),
        (["-H", "="], "a header is NAME=VALUE"),
    ],
)
def test_options_are_checked_before_a_cluster_is_asked(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["produce", "t", "--bootstrap", "localhost:1", *options]) == 2
    assert sentence in capsys.readouterr().err


def test_acks_and_compression_become_settings() -> None:
    assert settings_of("1", "zstd").acks == 1 and not settings_of("1", "zstd").idempotent


class FakeProducer:
    """Takes records; the second one of a transaction fails if `fails`."""

    fails = False

    def __init__(self, client: object, *given: object) -> None:
        self.calls: list[str] = []
        made.append(self)

    def send(self, record: ProducerRecord) -> TaskOutcome[Delivery]:
        outcome: TaskOutcome[Delivery] = TaskOutcome()
        if self.fails:
            outcome.reject(KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
        else:
            outcome.resolve(Delivery("t", 0, 0, 0))
        return outcome

    def __getattr__(self, name: str) -> Any:
        def call() -> str:
            self.calls.append(name)
            if name == "commit" and self.fails:
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
            return name

        return call


made: list[FakeProducer] = []


class FakeConnected:
    client = None

    def call(self, done: object, on_slow: object = None) -> None:
        """The fake's calls are done already."""


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(FakeProducer, "fails", False)
    monkeypatch.setattr(module, "TransactionalProducer", FakeProducer)
    monkeypatch.setattr(module, "Producer", FakeProducer)


def writer(transactional_id: str | None) -> RecordWriter:
    return RecordWriter(cast(Connected, FakeConnected()), ProducerSettings(), transactional_id)


@pytest.mark.usefixtures("fakes")
def test_a_transaction_is_committed_at_the_end() -> None:
    with writer("id") as written:
        written.send(ProducerRecord("t", b""))
    assert made[0].calls == ["init", "begin", "commit"] and written.acknowledged == 1


@pytest.mark.usefixtures("fakes")
def test_a_transaction_is_aborted_when_the_input_is_wrong() -> None:
    with pytest.raises(Failure), writer("id") as written:
        written.send(ProducerRecord("t", b""))
        raise Failure("not a record")
    assert made[0].calls == ["init", "begin", "abort"]


@pytest.mark.usefixtures("fakes")
def test_a_transaction_is_aborted_when_a_record_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeProducer, "fails", True)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"), writer("id") as written:
        written.send(ProducerRecord("t", b""))
    assert made[0].calls == ["init", "begin", "abort"]


@pytest.mark.usefixtures("fakes")
def test_records_before_a_wrong_line_are_written_without_a_transaction() -> None:
    with pytest.raises(Failure), writer(None) as written:
        written.send(ProducerRecord("t", b""))
        raise Failure("not a record")
    assert made[0].calls == ["flush"]
