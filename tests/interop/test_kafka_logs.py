"""The logs of Apache Kafka's processes that tests start say what Kafka complains of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.peers import CLASS_PATH, CLASS_PATH_39, CLASS_PATH_43
from tests.trio import Trio

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.peers("kafka", "kafka43", "kafka39"),
]
TOPIC = "damaged"


@pytest.mark.parametrize("class_path", [CLASS_PATH, CLASS_PATH_43, CLASS_PATH_39])
def test_an_error_of_each_release_is_on_standard_error(class_path: str) -> None:
    done = subprocess.run(
        ["java", "-Xmx200m", "-cp", class_path, "kafka.Kafka", "no-such-file.properties"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "SLF4J" not in done.stderr, "one binding, and not none"
    assert any(
        line.startswith(("ERROR kafka.", "FATAL kafka.")) for line in done.stderr.splitlines()
    )


def test_a_damaged_log_is_a_complaint(tmp_path: Path) -> None:
    trio = Trio(tmp_path, {}, nodes=1)
    trio.format("kafka")
    [node_id] = trio.nodes
    with trio.running("kafka"):
        trio.wait_for_brokers()
        write(trio)
        trio.kill(node_id)
        assert trio.complaints() == []
        [segment] = trio.data(node_id).glob(f"{TOPIC}-0/*.log")
        segment.write_bytes(segment.read_bytes()[:-1])
        trio.start(node_id, "kafka")
        trio.wait_for_brokers()
    assert any(TOPIC in line for line in trio.complaints()), trio.tail(node_id)


def write(trio: Trio) -> None:
    from confluent_kafka import Producer

    producer = Producer(trio.client())
    producer.produce(TOPIC, b"value")
    assert producer.flush(30) == 0
