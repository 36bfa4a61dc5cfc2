"""The program in docs/quorum.md is a quorum: three of it elect a leader, and another when that is killed."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "quorum.md"
PATIENCE_S = 60.0


def free_ports(count: int) -> list[int]:
    """Below the range that outgoing connections take."""
    found: list[int] = []
    for port in range(23_400, 30_000):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def wait_for(outputs: list[Path], wanted: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not all(wanted in path.read_text() for path in outputs):
        assert time.monotonic() < deadline, [path.read_text() for path in outputs]
        time.sleep(0.02)


def test_the_documented_program_is_a_quorum(tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "elections.py").write_text(program)
    ports = [str(port) for port in free_ports(3)]
    outputs = [tmp_path / f"{node}.out" for node in (1, 2, 3)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for node, output in enumerate(outputs, 1):
            command = [sys.executable, str(tmp_path / "elections.py"), str(node)]
            with open(output, "wb") as out, open(tmp_path / f"{node}.err", "wb") as log:
                processes.append(
                    subprocess.Popen(
                        [*command, str(tmp_path / str(node)), *ports], stdout=out, stderr=log
                    )
                )
        wait_for(outputs, "elections: 1\n")
        processes[0].kill()
        processes[0].wait()
        processes[1].kill()
        processes[1].wait()
        for node in (0, 1):
            (tmp_path / f"{node + 1}.out").write_text("")
            command = [sys.executable, str(tmp_path / "elections.py"), str(node + 1)]
            with open(outputs[node], "wb") as out:
                processes[node] = subprocess.Popen(
                    [*command, str(tmp_path / str(node + 1)), *ports],
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                )
        wait_for(outputs, "elections: 2\n")
    finally:
        for process in processes:
            process.kill()
            process.wait()
