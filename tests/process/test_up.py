"""``barnabas up``: a cluster of processes that starts, is told of, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.process.launch import Up, barnabas, has_ended, wait_until
from tests.process.small_disks import memory_disk

pytestmark = [pytest.mark.process, pytest.mark.slow]

Start = Callable[..., Up]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Up] = []

    def begin(*arguments: str) -> Up:
        started.append(Up(tmp_path / "cluster", *arguments))
        return started[-1]

    yield begin
    for up in started:
        up.end()


def test_it_starts_tells_and_stops_cleanly_and_starts_again_with_its_data(start: Start) -> None:
    up = start("--nodes", "3")
    bootstrap = up.wait_for_line("bootstrap: ").removeprefix("bootstrap: ")
    state = up.state
    assert state["bootstrap"] == bootstrap
    assert len(bootstrap.split(",")) == 3
    assert [node["id"] for node in state["nodes"]] == [1, 2, 3]
    ports = [int(x.rpartition(":")[2]) for n in state["nodes"] for x in n["listeners"].values()]
    assert len(set(ports)) == 6
    assert max(ports) < 32768
    pids = [node["pid"] for node in state["nodes"]]
    assert all(not has_ended(pid, 0) for pid in pids)
    meta = [(up.data / f"node-{n}/data/meta.properties").read_text() for n in (1, 2, 3)]

    assert up.stop() < 5.5
    assert up.process.returncode == 0, up.logs()
    assert all(has_ended(pid, 0) for pid in pids)
    assert up.pids == [None, None, None]

    again = start()
    assert again.wait_for_line("bootstrap: ").removeprefix("bootstrap: ") == bootstrap
    assert meta == [(up.data / f"node-{n}/data/meta.properties").read_text() for n in (1, 2, 3)]
    again.stop(signal.SIGINT)
    assert again.process.returncode == 0, again.logs()


@pytest.mark.parametrize("delay_s", [0.1, 0.2, 0.3, 0.4, 0.6, 1.0])
def test_it_ends_at_once_whenever_it_is_told_to(start: Start, delay_s: float) -> None:
    up = start("--nodes", "3")
    select.select([], [], [], delay_s)
    assert up.stop() < 5, up.logs()
    assert "Traceback" not in up.logs()


def ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> number - 1 & 1)


@pytest.mark.usefixtures("hears_hangups")
def test_the_end_of_a_terminal_ends_it_but_for_nohup(tmp_path: Path) -> None:
    for ignored in (True, False):
        command = [sys.executable, "-m", "barnabas", "up", "--data", str(tmp_path)]
        if ignored:
            command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command]
        up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert up.stdout is not None
            while not up.stdout.readline().startswith("bootstrap: "):
                assert up.poll() is None
            assert ignores(up.pid, signal.SIGHUP) == ignored
            up.send_signal(signal.SIGTERM if ignored else signal.SIGHUP)
            assert up.wait(10) == 0
        finally:
            up.kill()
            up.communicate()


def test_a_node_that_stands_still_does_not_hold_up_the_end(start: Start) -> None:
    up = start("--nodes", "3")
    up.wait_for_line("bootstrap: ")
    pids = [pid for pid in up.pids if pid is not None]
    os.kill(pids[0], signal.SIGSTOP)
    assert up.stop() < 5
    assert up.process.returncode == 1  # it did not end cleanly
    assert up.wait_for_line("node 1 did not end")
    assert all(has_ended(pid, 0) for pid in pids)


def test_a_lost_node_is_made_anew_and_the_quorum_keeps_its_size(start: Start) -> None:
    up = start("--nodes", "3")
    bootstrap = up.wait_for_line("bootstrap: ").removeprefix("bootstrap: ")
    created = barnabas("topics", "create", "t", "-r", "3", "--bootstrap", bootstrap)
    assert created.returncode == 0, created.stderr
    up.stop()
    shutil.rmtree(up.data / "node-2")
    (up.data / "cluster.json").write_text("")  # as a power loss may leave it
    again = start()
    bootstrap = again.wait_for_line("bootstrap: ").removeprefix("bootstrap: ")
    assert [node["id"] for node in again.state["nodes"]] == [1, 2, 3]

    def is_whole() -> bool:
        shown = barnabas("topics", "describe", "t", "--json", "--bootstrap", bootstrap)
        return shown.returncode == 0 and all(
            sorted(partition["isr"]) == [1, 2, 3]
            for partition in json.loads(shown.stdout)[0]["partition_list"]
        )

    wait_until(is_whole, "the lost node copied everything")
    again.stop()
    assert again.process.returncode == 0, again.logs()


def test_nodes_end_when_up_is_killed_and_the_next_up_waits_for_them(start: Start) -> None:
    up = start("--nodes", "1")
    up.wait_for_line("bootstrap: ")
    (pid,) = up.pids
    assert pid is not None
    up.process.kill()
    up.process.wait()
    again = start()
    again.wait_for_line("bootstrap: ")
    assert has_ended(pid, 0)
    again.stop()


def test_a_dead_node_is_told_of_and_left_until_somebody_starts_it(start: Start) -> None:
    up = start("--nodes", "3")
    up.wait_for_line("bootstrap: ")
    victim = up.state["nodes"][1]
    os.kill(victim["pid"], signal.SIGKILL)
    assert up.wait_for_line("node 2 ") == "node 2 was killed by SIGKILL"
    assert up.pids[1] is None
    by_hand = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "node", "start", victim["properties"]],
        stderr=subprocess.DEVNULL,
    )
    assert up.wait_for_line("node 2 was started") == (
        f"node 2 was started again: pid {by_hand.pid}"
    )
    wait_until(lambda: up.pids[1] == by_hand.pid, "cluster.json has the new process")
    up.stop()
    assert by_hand.wait(10) == 0
    assert up.process.returncode == 0, up.logs()


def test_a_dead_node_is_started_again_where_asked(start: Start) -> None:
    up = start("--nodes", "1", "--restart")
    up.wait_for_line("bootstrap: ")
    (pid,) = up.pids
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    up.wait_for_line("node 1 was started again")
    assert up.pids[0] not in (None, pid)
    up.stop()


def test_one_directory_is_run_once(start: Start) -> None:
    up = start("--nodes", "1")
    up.wait_for_line("node 1")
    second = barnabas("up", "--data", str(up.data))
    assert second.returncode == 1
    assert second.stderr == f"another `barnabas up` runs the cluster in {up.data}\n"


def test_the_cluster_outlives_who_read_what_it_said(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "barnabas", "up", "--nodes", "1", "--data", str(tmp_path)]
    with (tmp_path / "errors").open("wb") as errors:
        up = subprocess.Popen([*command, "--restart"], stdout=writer, stderr=errors)
    os.close(writer)
    try:
        with os.fdopen(reader) as said:
            assert said.readline().startswith("node 1")
        state = tmp_path / "cluster.json"
        pid = json.loads(state.read_text())["nodes"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: json.loads(state.read_text())["nodes"][0]["pid"] not in (pid, None),
            "the node was started again",
        )
        up.terminate()
        assert up.wait(10) == 0
    finally:
        up.kill()
        up.wait()
    assert (tmp_path / "errors").read_bytes() == b""


def test_a_full_disk_ends_no_cluster(tmp_path: Path) -> None:
    with memory_disk(tmp_path / "cluster", 16) as disk:
        up = Up(disk, "--nodes", "1", "--restart")
        try:
            up.wait_for_line("bootstrap: ")
            (pid,) = up.pids
            assert pid is not None
            with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(4096))
            os.kill(pid, signal.SIGKILL)
            up.wait_for_line(f"{disk}/cluster.json cannot be written: No space left")
            (disk / "ballast").unlink()
            wait_until(lambda: up.pids[0] not in (pid, None), "the node was started again")
            up.stop()
        finally:
            up.end()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "num.partitions=none"], "num.partitions: 'none' is not allowed; it must be a"),
        (["--set", "num.partitions"], "--set takes KEY=VALUE, not 'num.partitions'"),
        (["--set", "node.id=4"], "node.id cannot be set: `barnabas up` chooses it"),
    ],
)
def test_wrong_settings_are_one_sentence(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    result = barnabas("up", "--data", str(tmp_path / "cluster"), *arguments)
    assert result.returncode != 0
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
