"""Reads the fenced blocks of a page of the documentation, and runs them.

A fence's first word is its language, the others say where the block belongs: ``not-run`` for what a
test cannot do, ``up`` for the command that a test's own cluster replaces; a page may have words of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from barnabas.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
"""The cluster of all pages."""
NOT_RUN = "not-run"
QUICK = {"group.initial.rebalance.delay.ms": "0"}
"""A group's first member does not wait 3 s for others."""
PATIENCE_S = 100.0


class Block(NamedTuple):
    """One fenced block."""

    language: str
    words: frozenset[str]
    text: str
    title: str
    """The heading above it."""


def blocks(page: str) -> list[Block]:
    """The fenced blocks of `page`, a path below the project's root, in their order."""
    found, title, inside = [], "", False
    language, words, lines = "", frozenset[str](), list[str]()
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("```"):
            if inside:
                found.append(Block(language, words, "".join(lines), title))
            else:
                language, *rest = line[3:].split() or [""]
                words, lines = frozenset(rest), []
            inside = not inside
        elif inside:
            lines.append(line)
        elif line.startswith("#"):
            title = line.strip("# \n")
    assert not inside, f"{page}: a fence is not closed"
    return found


class Reader:
    """Does what a page says, in the directory `home`: by itself that of the cluster, which is ``./cluster``
    there."""

    def __init__(self, cluster: Cluster, home: Path | None = None) -> None:
        self.cluster = cluster
        self.home = home or cluster.directory
        folder = str(Path(sys.executable).parent)
        self.environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "BARNABAS_BOOTSTRAP": cluster.bootstrap,
        }
        # A shell that has just been opened.
        self.environment.pop("PYTHONPATH", None)

    def here(self, text: str) -> str:
        """`text` with the addresses and directories of this test."""
        text = text.replace(BOOTSTRAP, self.cluster.bootstrap)
        ports = [address.rpartition(":")[2] for address in self.cluster.bootstrap.split(",")]
        for ours, theirs in zip((9092, 9093, 9094), ports, strict=False):
            text = re.sub(rf"127\.0\.0\.1:{ours}\b", f"127.0.0.1:{theirs}", text)
        return text.replace("/data/", f"{self.home}/data/")

    def run(
        self, command: list[str], extra: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env={**self.environment, **(extra or {})}, cwd=cwd or self.home,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def shell(self, text: str) -> str:
        """Run `text` as one shell that ends at the first command that fails; its output."""
        return self._done(text, self.run(["bash", "-eu", "-o", "pipefail", "-c", self.here(text)]))

    def python(self, text: str) -> str:
        """Run `text` as a program in a file; its output."""
        program = self.home / "program.py"
        program.write_text(self.here(text))
        return self._done(text, self.run([sys.executable, str(program)]))

    def program(self, name: str, text: str, command: list[str], **extra: str) -> str:
        """Run `text` as a source file called `name` in a directory of its own."""
        folder = self.home / "programs" / name
        folder.mkdir(parents=True)
        (folder / name).write_text(self.here(text))
        return self._done(text, self.run(command, extra, folder))

    def _done(self, text: str, done: subprocess.CompletedProcess[str]) -> str:
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}{done.stderr[-6000:]}"
        return done.stdout


def missing_command(name: str) -> str | None:
    """A sentence where the command `name` is not installed."""
    return None if shutil.which(name) else f"{name} is not installed"
