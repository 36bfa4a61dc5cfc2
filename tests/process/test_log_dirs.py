"""A replica moves from one log directory to another of a real node, which is killed on the way, twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from tests.process.launch import wait_until
from tests.process.two_directories import TwoDirectories

pytestmark = [pytest.mark.process, pytest.mark.slow]
RECORDS = 400


def test_a_replica_moves_though_its_node_is_killed(tmp_path: Path) -> None:
    node = TwoDirectories(tmp_path)
    try:
        with connect(node.bootstrap) as client:
            client.create_topic("t")
            with client.producer() as producer:
                for at in range(RECORDS):
                    producer.send(ProducerRecord("t", b"%d " % at + b"v" * 100_000))
        source = next(path for path, found in node.replicas().items() if found)
        target = next(path for path in node.paths if path != source)
        assert "LOG_DIR_NOT_FOUND" in node.move("/nowhere").stderr
        assert node.move(target).returncode == 0
        shown = node.replicas()[target][0]
        assert shown["future"] and int(str(shown["lag"])) > 0
        node.kill()
        node.start()
        wait_until(lambda: "log.moving" in node.log, "the move goes on")
        node.kill()
        node.hurry()
        node.start()
        done = node.move(target, "--wait")
        assert (done.returncode, done.stdout[:10]) == (0, "1 replicas"), done.stderr
        assert [len(node.replicas()[path]) for path in (source, target)] == [0, 1]
        with connect(node.bootstrap) as client:
            numbers = [int((record.value or b"").split()[0]) for record in client.read(["t"])]
        assert numbers == list(range(RECORDS))
        assert "log.directory_offline" not in node.log and "Traceback" not in node.log
    finally:
        node.kill()
