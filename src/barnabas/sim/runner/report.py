"""The report of a seed that failed: enough to see what happened, and the command that replays it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import barnabas
from barnabas.sim.run import Plan, Result

TRACE_LINES = 60
STORY_LINES = 80
UNPLAYED = ("cli", "demo", "host", "pipeline", "testing")
"""Packages of which no seed loads a module."""


def failure_text(result: Result, plan: Plan, lines: int = TRACE_LINES) -> str:
    """Seed, commit, the last events one line each, the story of the partition concerned, the command."""
    story = result.story[-STORY_LINES:]
    return "\n".join(
        [
            f"--- the last {min(lines, len(result.trace))} events (virtual milliseconds)",
            *result.trace[-lines:],
            "",
            f"--- the story of {result.concerned}, its last {len(story)} entries",
            *story,
            "",
            f"--- seed {result.seed}, commit {commit()}, after {result.virtual_ms:.0f} virtual ms",
            result.failure.rstrip(),
            "",
            f"trace {result.trace_hash}; again: {command(result.seed, plan)}",
        ]
    )


def command(seed: int, plan: Plan) -> str:
    """The command that replays `seed` under `plan`."""
    arguments = []
    if plan.nodes is not None:
        arguments.append(f"--nodes {plan.nodes}")
    if plan.faults_ms is not None:
        arguments.append(f"--faults-ms {plan.faults_ms!r}")
    if plan.faults is not None:
        arguments.append(f"--faults {','.join(sorted(plan.faults)) or 'none'}")
    if plan.skip_faults:
        arguments.append(f"--skip-faults {ranges_text(plan.skip_faults)}")
    if plan.secured:
        arguments.append("--secured")
    if plan.shares:
        arguments.append("--shares")
    if plan.streams:
        arguments.append("--streams")
    if plan.eager:
        arguments.append("--eager")
    if plan.zookeeper:
        arguments.append("--zookeeper")
    if plan.migration:
        arguments.append("--migration")
    if plan.skip_clients:
        arguments.append(f"--skip-clients {','.join(sorted(plan.skip_clients))}")
    more = f' ARGS="{" ".join(arguments)}"' if arguments else ""
    return f"make sim SEED={seed}{more}"


def ranges_text(numbers: frozenset[int]) -> str:
    """``1-4,7`` of {1, 2, 3, 4, 7}."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def numbers_of(text: str) -> frozenset[int]:
    """Inverse of `ranges_text`. Raises ``ValueError``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def commit() -> str:
    """The checkout that this code runs from, as git names it; the version where there is none."""
    return _git("describe", "--always", "--dirty", "--tags") or f"version {barnabas.__version__}"


def source() -> str:
    """The source that a seed plays: a digest of `src` without `UNPLAYED`, which commits that change other
    things leave as it is. The version where there is no checkout."""
    played = ["src", *(f":!src/barnabas/{package}" for package in UNPLAYED)]
    files = _git("ls-files", "--stage", "--", *played)
    changed = _git("status", "--porcelain", "--", *played)
    if not files:
        return f"version {barnabas.__version__}"
    digest = hashlib.sha256(files.encode()).hexdigest()[:40]
    return f"{digest}, changed since" if changed else digest


def _git(*arguments: str) -> str:
    """The output of the command, run in the checkout; empty where there is none."""
    root = Path(barnabas.__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
