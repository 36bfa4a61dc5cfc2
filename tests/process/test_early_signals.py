"""A signal that arrives while a program is being loaded ends it, also where an exception would be swallowed.

The import system drops its module locks by callbacks of weak references. Python prints and forgets what such
a callback raises, so a handler that raised lost one of some two hundred SIGTERMs. Here the signal arrives in
such a callback, every time.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.launch import PATIENCE_S
from tests.process.test_node import format_storage, write_properties

pytestmark = pytest.mark.process
IN_A_CALLBACK = """
import os, runpy, signal, sys
number, at, module = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
seen = 0
def watch(frame, event, _):
    global seen
    if event != "call" or frame.f_code.co_name != "cb" or "importlib" not in frame.f_code.co_filename:
        return
    if not callable(signal.getsignal(number)) or signal.getsignal(number) is signal.default_int_handler:
        return
    seen += 1
    if seen == at:
        sys.setprofile(None)
        os.write(2, b"signalled\\n")
        os.kill(os.getpid(), number)
sys.setprofile(watch)
sys.argv = sys.argv[3:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def ended(at: int, number: int, *arguments: str) -> tuple[int, str]:
    """Exit status and standard error of the program, which is signalled in the callback `at`."""
    program = subprocess.Popen(
        [sys.executable, "-c", IN_A_CALLBACK, str(int(number)), str(at), *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, told = program.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        _, told = program.communicate()
        raise AssertionError(f"the program runs on: {told[-2000:]}") from None
    return program.returncode, told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(
    ("module", "at"), [("barnabas", 1), ("barnabas", 60), ("barnabas.host.main", 1)]
)
def test_a_signal_while_a_node_is_loaded_ends_it(
    tmp_path: Path, hears_hangups: None, module: str, at: int, number: signal.Signals
) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    words = ["node", "start"] if module == "barnabas" else []
    status, told = ended(at, number, module, *words, str(file))
    assert "signalled" in told, "the signal came too late to test anything"
    assert status == 0 and "Traceback" not in told and "node.started" not in told


def test_a_signal_while_a_zookeeper_server_is_loaded_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(f"dataDir={tmp_path / 'data'}\nclientPort=2181\n")
    status, told = ended(1, signal.SIGTERM, "barnabas", "zookeeper", "start", str(file))
    assert "signalled" in told and status == 0 and "Traceback" not in told
    assert "zookeeper.started" not in told


@pytest.mark.slow
def test_a_terminated_node_ends_whenever_the_signal_comes(tmp_path: Path) -> None:
    """Twelve starts; the signal comes 30 ms later in each."""
    file = write_properties(tmp_path)
    format_storage(file)
    for turn in range(12):
        program = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "node", "start", str(file)],
            stderr=subprocess.DEVNULL,
        )
        select.select([], [], [], 0.1 + turn * 0.03)
        program.send_signal(signal.SIGTERM)
        try:
            assert program.wait(PATIENCE_S) in (0, -signal.SIGTERM), f"in turn {turn}"
        finally:
            program.kill()
            program.wait()
