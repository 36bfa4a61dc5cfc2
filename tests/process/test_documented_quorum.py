"""The program in docs/quorum-library.md is a quorum: its three replicas elect leaders, also after kills."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from barnabas.cli.local.free_ports import FreePorts
from tests.docs.blocks import NOT_RUN, blocks

PAGE = "docs/quorum-library.md"
PATIENCE_S = 60.0


def elections(output: Path) -> int:
    """How many this one has told of; two may have come in one."""
    return int((re.findall(r"elections: (\d+)\n", output.read_text()) or ["0"])[-1])


def leader_of(logs: list[Path]) -> int:
    """Who said last that it leads."""
    said = [line for log in logs for line in log.read_text().splitlines() if "state=Leader" in line]
    return int(re.findall(r" node=(\d+) ", max(said))[0])


def test_the_documented_program_is_a_quorum(tmp_path: Path) -> None:
    [program] = [
        block.text
        for block in blocks(PAGE)
        if block.language == "python" and NOT_RUN not in block.words
    ]
    (tmp_path / "elections.py").write_text(program)
    ports = [str(port) for port in FreePorts().take(3)]
    outputs = {node: tmp_path / f"{node}.out" for node in (1, 2, 3)}
    logs = {node: tmp_path / f"{node}.err" for node in (1, 2, 3)}
    processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(node: int) -> None:
        command = [sys.executable, str(tmp_path / "elections.py"), str(node)]
        with open(outputs[node], "wb") as out, open(logs[node], "ab") as log:
            processes[node] = subprocess.Popen(
                [*command, str(tmp_path / str(node)), *ports], stdout=out, stderr=log
            )

    def kill_the_leader() -> int:
        leader = leader_of([logs[node] for node in processes])
        killed = processes.pop(leader)
        killed.kill()
        killed.wait()
        return leader

    def wait_for_another_election(before: int) -> int:
        deadline, running = time.monotonic() + PATIENCE_S, [outputs[node] for node in processes]
        while not all(elections(path) > before for path in running):
            told = [path.read_text() for path in [*running, *logs.values()]]
            assert time.monotonic() < deadline, told
            time.sleep(0.02)
        return max(map(elections, running))

    try:
        for node in outputs:
            start(node)
        count = wait_for_another_election(0)
        first = kill_the_leader()
        count = wait_for_another_election(count)
        second = kill_the_leader()
        start(first)
        start(second)
        wait_for_another_election(count)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
