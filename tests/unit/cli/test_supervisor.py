"""The nodes of a directory through what their supervisor cannot do: it continues, and so do they."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.local import supervisor as module
from barnabas.cli.local.cluster_directory import ClusterDirectory, NodeFiles
from barnabas.cli.local.supervisor import Supervisor
from barnabas.host.loop import Loop
from tests.unit.host.running import run_until

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]
FULL = OSError(errno.ENOSPC, "No space left on device")


class Run:
    """Two nodes, whose processes are sleepers, and what their supervisor says."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sleepers: list[subprocess.Popen[bytes]] = []
        self.said: list[str] = []
        self.stopped = False
        self.loop = Loop(lambda message, error: self.said.append(f"{message}: {error}"))
        self.directory = ClusterDirectory(path)
        monkeypatch.setattr(module, "load_node", lambda **_: None)
        monkeypatch.setattr(module, "fork_node", lambda *_: self.sleep().pid)
        monkeypatch.setattr(module, "execute_node", lambda *_: self.sleep().pid)
        self.supervisor = Supervisor(
            self.loop,
            self.directory,
            self.directory.lay_out(2, {}),
            cluster_id="",
            restart=True,
            report=self.said.append,
            on_change=lambda: None,
            on_stopped=self._on_stopped,
        )
        self.supervisor.start()

    @property
    def files(self) -> NodeFiles:
        return self.supervisor.nodes[0].files

    @property
    def pid(self) -> int | None:
        return self.supervisor.nodes[0].pid

    def sleep(self) -> subprocess.Popen[bytes]:
        self.sleepers.append(subprocess.Popen(SLEEPER))
        return self.sleepers[-1]

    def until_said(self, text: str) -> None:
        run_until(self.loop, lambda: any(text in line for line in self.said))

    def pid_in_file(self) -> int | None:
        pid: int | None = (self.directory.read_state() or {})["nodes"][0]["pid"]
        return pid

    def end(self) -> None:
        for sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait()
        self.loop.close()

    def _on_stopped(self) -> None:
        self.stopped = True


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    run = Run(tmp_path, monkeypatch)
    yield run
    run.end()


@pytest.mark.slow
def test_a_node_comes_again_where_its_end_cannot_be_written_down(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise FULL

    with monkeypatch.context() as full:
        full.setattr(os, "replace", refuse)
        run.sleepers[0].kill()
        run.until_said("was started again")
        assert run.pid == run.sleepers[2].pid
        assert run.pid_in_file() == run.sleepers[0].pid
    refusal = f"{run.directory.state_file} cannot be written: No space left on device"
    assert run.said.count(refusal) == 1
    run_until(run.loop, lambda: run.pid_in_file() == run.pid)  # there is room again


@pytest.mark.slow
def test_a_node_that_cannot_be_started_now_is_started_later(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [OSError(errno.EAGAIN, "Resource temporarily unavailable")]

    def refuse_once(*_: object) -> int:
        if refusals:
            raise refusals.pop()
        return run.sleep().pid

    monkeypatch.setattr(module, "execute_node", refuse_once)
    run.sleepers[0].kill()
    run.until_said("node 1 was started again")
    assert "node 1 cannot be started: Resource temporarily unavailable" in run.said


def test_a_node_that_was_started_by_hand_before_an_end_was_heard_of_is_adopted(run: Run) -> None:
    run.sleepers[0].kill()
    os.waitid(os.P_PID, run.sleepers[0].pid, os.WEXITED | os.WNOWAIT)
    by_hand = run.sleep()
    run.directory.announce(run.files.properties, by_hand.pid)
    run.supervisor.adopt()
    run.until_said(f"was started again: pid {by_hand.pid}")
    assert run.pid == run.pid_in_file() == by_hand.pid


def test_an_adopted_node_that_is_gone_already_does_not_hold_up_the_end(run: Run) -> None:
    node = run.supervisor.nodes[0]
    run.sleepers[0].kill()
    run.sleepers[0].wait()
    node.ours = False
    run.supervisor.stop()
    run_until(run.loop, lambda: run.stopped)
    assert not node.is_alive


def test_a_node_that_is_started_by_hand_during_the_end_is_terminated(run: Run) -> None:
    other = run.supervisor.nodes[1]
    run.supervisor._restart = False
    run.sleepers[1].kill()
    run.until_said("node 2 was killed")
    by_hand = run.sleep()
    run.directory.announce(other.files.properties, by_hand.pid)
    run.supervisor.stop()
    run.supervisor.adopt()
    run_until(run.loop, lambda: run.stopped)
    assert by_hand.wait(10) == -signal.SIGTERM
