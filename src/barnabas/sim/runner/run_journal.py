"""A long run of seeds, kept in a file: interrupted, it resumes where it stopped; a failure does not end it.

The file has a line of JSON per chunk of seeds, after a first one that says which run it is: the source that
is played, the first seed and how many. A line that was not written whole is a chunk that was not played.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from barnabas.sim.run import Plan, play_seed
from barnabas.sim.runner.report import failure_text

SEEDS_PER_LINE = 20
"""Seeds between two lines: what an interruption can cost each job."""


class JournalError(Exception):
    """The file is the journal of another run, or none at all."""


@dataclass
class Played:
    """Some seeds, played."""

    first: int
    """The first of them."""
    seeds: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    virtual_ms: float = 0.0
    cpu_s: float = 0.0
    failed: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """The texts that are printed of each seed that failed."""

    def add(self, other: Played) -> None:
        totals = Counter(self.totals)
        totals.update(other.totals)
        self.totals = dict(totals)
        self.seeds += other.seeds
        self.virtual_ms += other.virtual_ms
        self.cpu_s += other.cpu_s
        self.failed += other.failed
        self.texts += other.texts

    def rates(self) -> str:
        """One line: what a second of one core played, and how dense it was."""
        cpu_s, messages = self.cpu_s or 1.0, self.totals.get("messages delivered", 0)
        return (
            f"{self.seeds} seeds, {len(self.failed)} failed; per second of a core {self.seeds / cpu_s:.2f}"
            f" seeds, {self.virtual_ms / 3.6e6 / cpu_s:.5f} simulated hours, {messages / cpu_s:.0f} messages;"
            f" {messages / max(1, self.seeds):.0f} messages and"
            f" {self.virtual_ms / 1000 / max(1, self.seeds):.0f} s each"
        )


def play_chunk(seeds: range, plan: Plan, lines: int, *, leave_garbage: bool = False) -> Played:
    """Play `seeds` to their ends, whether one fails or not."""
    played = Played(seeds.start)
    for seed in seeds:
        result = play_seed(seed, plan, leave_garbage=leave_garbage)
        one = Played(seed, 1, dict(result.totals), result.virtual_ms, result.cpu_s)
        if result.failure:
            one.failed.append(seed)
            one.texts.append(failure_text(result, plan, lines))
        played.add(one)
    return played


class RunJournal:
    """The file of one run."""

    def __init__(self, path: Path, seeds: range, source: str) -> None:
        """Raises :class:`JournalError` where `path` is the file of something else."""
        self.path = path
        self.seeds = seeds
        self.all = Played(seeds.start)
        """Everything played so far."""
        self._head = {"source": source, "from": seeds.start, "seeds": len(seeds)}
        self._done: set[int] = set()
        if path.exists():
            self._read()
        else:
            path.write_text(json.dumps(self._head) + "\n", encoding="utf-8")

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        try:
            head, *chunks = [json.loads(line) for line in whole.splitlines()]
            played = [Played(**chunk) for chunk in chunks]
        except (ValueError, TypeError) as error:
            raise JournalError(f"{self.path} is not the journal of a run: {error}") from error
        if head != self._head:
            raise JournalError(
                f"{self.path} is the journal of another run: {head}, not {self._head}"
            )
        for chunk in played:
            self._done.add(chunk.first)
            self.all.add(chunk)
        if len(whole) < len(text):
            os.truncate(self.path, len(whole.encode()))

    def rest(self) -> list[range]:
        """The seeds that are still to be played."""
        starts = self.seeds[::SEEDS_PER_LINE]
        end = self.seeds.stop
        return [range(at, min(at + SEEDS_PER_LINE, end)) for at in starts if at not in self._done]

    def note(self, played: Played) -> None:
        """`played` will not be played again."""
        self.all.add(played)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(played)) + "\n")
