"""``barnabas up``: a cluster of processes that starts, is described, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.cli.failure import Failure
from barnabas.cli.local.free_ports import FreePorts, require_free
from tests.docs.blocks import blocks
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
def test_the_cluster_ends_at_once_whenever_it_is_terminated(start: Start, delay_s: float) -> None:
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


def test_a_paused_node_does_not_delay_the_end(start: Start) -> None:
    up = start("--nodes", "3")
    up.wait_for_line("bootstrap: ")
    pids = [pid for pid in up.pids if pid is not None]
    os.kill(pids[0], signal.SIGSTOP)
    assert up.stop() < 5
    assert up.process.returncode == 1  # it did not end cleanly
    assert up.wait_for_line("node 1 did not end")
    assert all(has_ended(pid, 0) for pid in pids)


def test_a_lost_voter_is_refused_and_replaced_where_asked(start: Start) -> None:
    up = start("--nodes", "3")
    bootstrap = up.wait_for_line("bootstrap: ").removeprefix("bootstrap: ")
    created = barnabas("topics", "create", "t", "-r", "3", "--bootstrap", bootstrap)
    assert created.returncode == 0, created.stderr
    up.stop()
    shutil.rmtree(up.data / "node-2")
    (up.data / "cluster.json").write_text("")  # as a power loss may leave it
    refused = start()
    assert "--replace-lost" in refused.wait_for_line("node 2 (")
    assert refused.process.wait(10) == 1
    again = start("--replace-lost")
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


def test_a_dead_node_is_reported_and_left_until_it_is_started_by_hand(start: Start) -> None:
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
        (["--feature", "share.version=9"], "share.version supports levels 0 to 2, not 9"),
        (["--release", "9.9"], "'9.9' is no metadata.version; known are 3.3-IV3 to"),
    ],
)
def test_wrong_settings_are_one_sentence(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    result = barnabas("up", "--data", str(tmp_path / "cluster"), *arguments)
    assert result.returncode != 0
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


def test_the_readmes_example_works_as_it_is_printed(tmp_path: Path, start: Start) -> None:
    """But for the directory and the ports, which others may have."""
    block = next(block for block in blocks("README.md") if block.language == "sh")
    lines = [line.partition("#")[0].strip() for line in block.text.splitlines()]
    activate, started, export, *commands = lines
    assert activate == ". .venv/bin/activate" and export.startswith("export BARNABAS_BOOTSTRAP=")
    words = started.split()
    assert words[:2] == ["barnabas", "up"] and words[words.index("--port") + 1] == "9092"
    port = three_free_ports()
    words[words.index("--port") + 1] = str(port)
    at = words.index("--data")
    up = start(*words[2:at], *words[at + 2 :])
    told = up.wait_for_line("bootstrap: ").removeprefix("bootstrap: ")
    assert export.endswith(told.replace(f":{port}", ":9092").replace(f":{port + 1}", ":9093")
                           .replace(f":{port + 2}", ":9094"))  # fmt: skip
    assert up.wait_for_line("export BARNABAS_BOOTSTRAP=").split()[1] == f"BARNABAS_BOOTSTRAP={told}"
    barnabas_here = f"{shlex.quote(sys.executable)} -m barnabas"
    script = "\n".join(line.replace("barnabas ", f"{barnabas_here} ") for line in commands)
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        env={"BARNABAS_BOOTSTRAP": told, "PATH": os.environ["PATH"]},  # no HOME, nothing activated
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert set(map(str, range(1, 1001))) <= set(done.stdout.split())


def three_free_ports() -> int:
    """The first of three neighbours that are free."""
    ports = FreePorts()
    while True:
        [first] = ports.take(1)
        with suppress(Failure):
            for port in (first + 1, first + 2):
                require_free(port, "a test")
            return first


def test_a_port_that_is_taken_and_a_misspelt_key_are_said(start: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        up = start("--port", str(taken.getsockname()[1]))
        assert up.wait_for_line("port ").endswith("choose another --port")
        assert up.process.wait(10) == 1
    up = start("--set", "num.partition=3")
    assert up.wait_for_line("warning: ").endswith("did you mean num.partitions?")
    up.wait_for_line("bootstrap: ")
    assert "did_you_mean=num.partitions" in (up.data / "node-1" / "node.log").read_text()
