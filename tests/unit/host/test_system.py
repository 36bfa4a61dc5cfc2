"""What differs between systems: each way that this machine can take does the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.host.system import files, pollers, processes, wakeups
from barnabas.host.system.pollers import HUP, IN, OUT, READABLE, Poller
from barnabas.host.system.wakeups import EventWakeup, PipeWakeup

SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture(params=list(pollers.pollers()))
def poller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poller]:
    monkeypatch.setenv("BARNABAS_POLLER", request.param)
    made = pollers.new_poller()
    yield made
    made.close()


@pytest.fixture(params=["own", "portable"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either this system's own way or the portable one."""
    if request.param == "portable":
        for module in (files, processes, wakeups):
            monkeypatch.setattr(module, "IS_LINUX", False)
        monkeypatch.setattr(processes, "IS_PORTABLE", True)
    return str(request.param)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_poller_reports_what_is_ready_once(
    poller: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), IN)
    assert poller.poll(0) == []
    theirs.send(b"x")
    assert poller.poll(-1) == [(ours.fileno(), IN)]
    poller.modify(ours.fileno(), IN | OUT)
    assert poller.poll(1.0) == [(ours.fileno(), IN | OUT)]
    poller.modify(ours.fileno(), OUT)
    assert poller.poll(1.0) == [(ours.fileno(), OUT)]
    poller.unregister(ours.fileno())
    assert poller.poll(0.001) == []


def test_a_poller_reports_a_closed_peer_as_readable(
    poller: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), IN)
    theirs.close()
    [(fd, mask)] = poller.poll(5.0)
    assert fd == ours.fileno()
    assert mask & READABLE
    assert mask & (IN | HUP)


def test_a_poller_that_the_system_lacks_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_POLLER", "ports")
    with pytest.raises(pollers.PollerUnknownError, match=r"'ports', and this system has .*poll"):
        pollers.new_poller()


@pytest.mark.parametrize("kind", [EventWakeup, PipeWakeup])
def test_a_wakeup_is_readable_until_it_is_drained(
    kind: type[EventWakeup | PipeWakeup], poller: Poller
) -> None:
    wakeup = kind()
    poller.register(wakeup.fd, IN)
    waker = threading.Thread(target=wakeup.wake)
    waker.start()
    assert poller.poll(5.0) == [(wakeup.fd, IN)]
    waker.join()
    for _ in range(70_000 if kind is PipeWakeup else 3):  # more than a pipe holds
        wakeup.wake()
    wakeup.drain()
    assert poller.poll(0) == []
    wakeup.wake()
    assert poller.poll(5.0) == [(wakeup.fd, IN)]
    wakeup.close()


@pytest.mark.slow
def test_the_end_of_a_process_is_reported(way: str, poller: Poller) -> None:
    child = subprocess.Popen(SLEEPER, stdin=subprocess.PIPE)
    end = processes.watch_process(child.pid)
    poller.register(end.fd, IN)
    assert poller.poll(0.03) == []
    assert not processes.has_ended(child.pid)
    end.send(signal.SIGTERM)
    assert poller.poll(20.0) == [(end.fd, IN)]
    assert processes.has_ended(child.pid, 1.0)
    assert child.wait() == -signal.SIGTERM
    end.close()
    with pytest.raises(ProcessLookupError):
        processes.watch_process(child.pid)
    assert processes.has_ended(child.pid)


PARENT_AND_CHILD = """
import os, sys, time
from barnabas.host.system.processes import end_with_named_parent, end_with_parent
if sys.argv[1:]:
    end_with_named_parent()
    print(os.getpid(), flush=True)
    time.sleep(60)
parent = os.getpid()
if not os.fork():
    assert end_with_parent(parent)
    os.execv(sys.executable, [sys.executable, __file__, "child"])
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["", "portable"])
def test_an_executed_child_ends_with_its_parent(chosen: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PARENT_AND_CHILD)
    parent = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        env={**os.environ, "BARNABAS_SYSTEM": chosen},
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not processes.has_ended(child)
    parent.kill()
    parent.wait()
    assert processes.has_ended(child, 20.0)
    parent.stdout.close()


def test_a_locked_file_is_refused_in_this_process_and_in_another(way: str, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = files.lock_file(path)
    assert held is not None
    assert files.lock_file(path) is None
    other = (
        "import fcntl, sys\n"
        "try: fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: print('locked')\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", other, path], capture_output=True, text=True, check=True
    )
    assert said.stdout == "locked\n"
    files.unlock_file(held)
    again = files.lock_file(path)
    assert again is not None
    files.unlock_file(again)


def test_content_is_made_durable_and_an_unnamed_file_leaves_nothing(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with files.unnamed_file(b"a key") as path:
        assert Path(path).read_bytes() == b"a key"
        assert Path(path).read_bytes() == b"a key"  # a library may read it twice
        assert Path(path).stat().st_mode & 0o077 == 0 or way == "own"
    assert list(tmp_path.iterdir()) == []
    with (tmp_path / "content").open("wb") as file:
        file.write(b"x")
        file.flush()
        files.sync_content(file.fileno())
