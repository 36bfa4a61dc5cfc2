"""A real node compacts in a helper process; both are killed in the middle, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from tests.process.launch import PATIENCE_S, has_ended, wait_until
from tests.process.two_directories import TwoDirectories

pytestmark = [pytest.mark.process, pytest.mark.slow]
KEYS, RECORDS = 100, 30_000
SETTINGS = {
    "log_cleaner_backoff_ms": "200",
    "log_cleaner_min_cleanable_ratio": "0.1",
    "log_flush_offset_checkpoint_interval_ms": "500",
}
TOPIC = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def test_a_round_survives_the_death_of_everybody(tmp_path: Path) -> None:
    node = TwoDirectories(tmp_path, 1, **SETTINGS)
    expected = {}
    try:
        with connect(node.bootstrap) as client:
            client.create_topic("t", configs=dict(TOPIC))
            with client.producer() as producer:
                for at in range(RECORDS):
                    key, value = b"key-%d" % (at % KEYS), b"%d " % at + b"v" * 800
                    producer.send(ProducerRecord("t", value, key))
                    expected[key] = value
        helpers: list[int] = []

        def is_helped() -> bool:
            helpers[:] = children_of(node.process.pid)
            return bool(helpers)

        wait_until(is_helped, "a helper runs")
        node.kill()
        assert has_ended(helpers[0], PATIENCE_S), "it outlives its node"
        node.start()
        wait_until(lambda: "helped=true" in node.log.lower(), "a round is done")
        assert "log.directory_offline" not in node.log and "Traceback" not in node.log
        read = 0
        latest = {}
        with connect(node.bootstrap) as client:
            for record in client.read(["t"]):
                read += 1
                latest[record.key] = record.value
        assert latest == expected
        assert len(expected) <= read < RECORDS
    finally:
        node.kill()
