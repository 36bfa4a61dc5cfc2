"""A cluster that gets SIGTERM has ended within five seconds, and every node of it cleanly.

Whatever is left of the quorum: nodes that leave last find no majority and no controller, flush and
write the proof of a clean shutdown all the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.launch import Up, barnabas, has_ended, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

STOP_S = 5.0
CLEAN = ".kafka_cleanshutdown"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Three nodes and a topic whose partitions have a leader each and a little data."""
    up = Up(tmp_path / "cluster", "--nodes", "3")
    try:
        at = up.wait_for_line("bootstrap: ").removeprefix("bootstrap: ")
        created = barnabas(
            "topics", "create", "t", "-p", "3", "-r", "3", "--bootstrap", at, timeout_s=60
        )
        assert created.returncode == 0, created.stderr
        yield up
    finally:
        up.end()


def clean_files(up: Up) -> list[bool]:
    return [(up.data / f"node-{n}/data/{CLEAN}").exists() for n in (1, 2, 3)]


def node_log(up: Up, node: int) -> str:
    return (up.data / f"node-{node}/node.log").read_text(errors="replace")


def assert_ended_cleanly(up: Up) -> None:
    assert up.process.returncode == 0, up.logs()
    assert up.pids == [None, None, None]
    assert clean_files(up) == [True, True, True], up.logs()
    for node in (1, 2, 3):
        assert "shutdown_cut_short" not in node_log(up, node), node_log(up, node)


def test_all_nodes_at_once(up: Up) -> None:
    assert up.stop() < STOP_S
    assert_ended_cleanly(up)


def test_a_cluster_with_a_node_started_by_hand_ends(up: Up) -> None:
    victim = up.state["nodes"][1]
    os.kill(victim["pid"], signal.SIGKILL)
    up.wait_for_line("node 2 was killed")
    started = node_log(up, 2).count("broker.unfenced")
    with (up.data / "node-2/node.log").open("ab") as log:
        by_hand = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "node", "start", victim["properties"]], stderr=log
        )
    try:
        up.wait_for_line("node 2 was started again")
        wait_until(lambda: node_log(up, 2).count("broker.unfenced") > started, "node 2 serves")
        assert up.stop() < STOP_S
        assert by_hand.wait(STOP_S) == 0
    finally:
        by_hand.kill()
        by_hand.wait()
    assert_ended_cleanly(up)


def test_the_last_node_of_a_quorum_whose_majority_was_killed(up: Up) -> None:
    first, second, last = up.state["nodes"]
    for node in (first, second):
        os.kill(node["pid"], signal.SIGKILL)
    for node in (first, second):
        up.wait_for_line(f"node {node['id']} was killed")
    assert up.stop() < STOP_S
    assert up.process.returncode == 0, up.logs()
    assert clean_files(up) == [False, False, True], up.logs()
    assert "shutdown_cut_short" not in node_log(up, last["id"])


def test_a_node_whose_controllers_neither_answer_nor_end(up: Up) -> None:
    """Their connections stay open: only the missing answer tells."""
    stopped = up.state["nodes"][:2]
    pid = up.pids[2]
    assert pid is not None
    try:
        for node in stopped:
            os.kill(node["pid"], signal.SIGSTOP)
        os.kill(pid, signal.SIGTERM)
        assert has_ended(pid, STOP_S), node_log(up, 3)
        up.wait_for_line("node 3 ended with status 0")
        assert clean_files(up)[2]
    finally:
        for node in stopped:
            os.kill(node["pid"], signal.SIGCONT)
    assert up.stop() < STOP_S
    assert up.process.returncode == 0, up.logs()


def test_one_node_leaves_while_the_others_continue(up: Up) -> None:
    """Where a majority lives, the hand-over is the controller's."""
    pid = up.pids[0]
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    up.wait_for_line("node 1 ended with status 0")
    assert 'broker.left why="the controller said so"' in node_log(up, 1)
    assert clean_files(up) == [True, False, False]
    assert up.stop() < STOP_S
    assert_ended_cleanly(up)
