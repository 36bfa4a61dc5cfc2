"""Our commands about records on Apache Kafka alone; and kcat's format strings, byte for byte as kcat's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from tests.interop.test_operating_kafka import KafkaNodes
from tests.json_shapes import assert_documented

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 120
RECORDS = (
    ProducerRecord("kept", b"plain", b"key", timestamp_ms=1_700_000_000_123),
    ProducerRecord("kept", None, b"gone", timestamp_ms=1_700_000_000_124),
    ProducerRecord("kept", b"", None, timestamp_ms=1_700_000_000_125),
    ProducerRecord(
        "kept",
        b"\x00\xff\n\t%s \x1b[31m",
        b"\xc3\x28",
        timestamp_ms=1_700_000_000_126,
        headers=(("a", b"1"), ("b", None), ("a", b"\x01 x"), ("", b"")),
    ),
    ProducerRecord("kept", "ünïcode".encode(), "schlüssel".encode(), timestamp_ms=0),
    ProducerRecord("kept", b"v" * 70_000, None, timestamp_ms=1_700_000_000_127),
)
FORMATS = (
    "%s\n",
    "%k:%s\n",
    "%t [%p] at %o: %k (%K) = %s (%S)\\n",
    "%T %o\\n",
    "%R%s",
    "%K %S %h|\\n",
    "%%s is no token \\x41\\x7e \\r\\n",
    "\\t%o\\t%k\\\\",
)
"""Format strings of kcat's manual page, and those at its edges."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNodes]:
    nodes = KafkaNodes(tmp_path_factory.mktemp("kafka"))
    try:
        nodes.wait()
        yield nodes
    finally:
        nodes.stop()


def output_of(command: list[str], stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def barnabas(kafka: KafkaNodes, *words: str, stdin: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "barnabas", *words, "--bootstrap-server", kafka.bootstrap]
    return output_of(command, stdin)


def test_records_are_written_read_and_tailed_on_kafka(kafka: KafkaNodes, tmp_path: Path) -> None:
    barnabas(kafka, "topics", "create", "written", "-p", "2", "-r", "2")
    lines = [
        {"key": "a", "value": "one", "partition": 0, "headers": [["h", "x"]]},
        {"key": None, "value": "two", "partition": 1},
        {"key": "a", "value": None, "partition": 0},
    ]
    given = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    told = json.loads(
        barnabas(kafka, "produce", "written", "--json-records", "--json", stdin=given)
    )
    assert_documented(["produce"], told)
    assert told["acknowledged"] == 3
    read = barnabas(kafka, "consume", "written", "--from-beginning", "--exit", "--json")
    found = [json.loads(line) for line in read.splitlines()]
    assert sorted((row["partition"], row["offset"], row["value"]) for row in found) == [
        (0, 0, "one"), (0, 1, None), (1, 0, "two"),
    ]  # fmt: skip
    assert barnabas(kafka, "consume", "written", "-g", "readers", "-f", "-e").count(b"\n") == 3
    tailed = barnabas(kafka, "tail", "written", "--last", "1", "--max-records", "2", "--json")
    assert sorted(json.loads(line)["value"] or "" for line in tailed.splitlines()) == ["", "two"]


@pytest.mark.parametrize("verb", ["produce", "consume", "latency", "end-to-end"])
def test_kafka_is_measured(kafka: KafkaNodes, verb: str) -> None:
    topic = f"measured-{verb}"
    barnabas(kafka, "topics", "create", topic, "-p", "1", "-r", "1")
    if verb == "consume":
        barnabas(kafka, "perf", "produce", topic, "--records", "2000")
    words = ["perf", verb, topic, "--records", "200" if verb != "consume" else "2000", "--json"]
    told = json.loads(barnabas(kafka, *words))
    assert_documented(words, told)
    assert told["records"] == int(words[4]) and told["records_per_second"] > 0


@pytest.mark.peers("kafka", "kcat")
def test_a_format_string_has_the_bytes_of_kcat(kafka: KafkaNodes) -> None:
    with connect(kafka.bootstrap) as client:
        client.create_topic("kept", 1, 2)
        with client.producer() as producer:
            for record in RECORDS:
                producer.send(record)
    ours = ["consume", "kept", "--from-beginning", "--exit", "--format"]
    for text in FORMATS:
        kcat = ["kcat", "-b", kafka.bootstrap, "-C", "-t", "kept", "-o", "beginning", "-e", "-q"]
        expected = output_of([*kcat, "-f", text])
        assert barnabas(kafka, *ours, text) == expected, text
