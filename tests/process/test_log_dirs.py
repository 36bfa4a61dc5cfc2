"""A replica moves from one log directory to another of a real node, which is killed on the way, twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.host.client import connect
from tests.json_shapes import assert_documented
from tests.process.launch import wait_until
from tests.process.two_directories import TwoDirectories

pytestmark = [pytest.mark.process, pytest.mark.slow]
RECORDS = 400


def test_a_replica_moves_though_its_node_is_killed(tmp_path: Path) -> None:
    node = TwoDirectories(tmp_path)
    try:
        source, target = node.fill(RECORDS)
        assert "LOG_DIR_NOT_FOUND" in node.move("/nowhere").stderr
        assert node.move(target).returncode == 0
        shown = node.replicas()[target][0]
        assert shown["future"] and int(str(shown["lag"])) > 0
        node.kill()
        node.start()
        wait_until(lambda: "log.moving" in node.log, "the move continues")
        node.kill()
        node.hurry()
        node.start()
        done = node.move(target, "--wait", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        told = json.loads(done.stdout)
        assert_documented(["log", "dirs", "move"], told)
        assert told["are_there"] and told["replicas"] == ["t-0"]
        assert [len(node.replicas()[path]) for path in (source, target)] == [0, 1]
        with connect(node.bootstrap) as client:
            numbers = [int((record.value or b"").split()[0]) for record in client.read(["t"])]
        assert numbers == list(range(RECORDS))
        assert "log.directory_offline" not in node.log and "Traceback" not in node.log
    finally:
        node.kill()
