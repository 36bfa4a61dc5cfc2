"""Shows the demo's progress: as a live table on a terminal, otherwise as lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from barnabas.demo.outcome import Check

LINE_EVERY_S = 5.0


@dataclass(slots=True)
class Step:
    """One line of the story."""

    name: str
    detail: str = ""
    began: float = 0.0
    took_s: float | None = None
    failed: bool = False


class JobProgress(Protocol):
    """Shows steps. `update` may be called often."""

    def update(self, name: str, detail: str) -> None:
        """Show how far a running step is."""

    def done(self, name: str, detail: str) -> None: ...

    def failed(self, name: str, detail: str) -> None: ...

    def close(self) -> None: ...


class PlainProgress:
    """A line when a step begins and ends, and every few seconds in between."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._said: dict[str, float] = {}

    def _line(self, mark: str, name: str, detail: str) -> None:
        at = time.monotonic() - self._began
        self._stream.write(f"[{at:6.1f} s] {mark} {name}: {detail}\n")
        self._stream.flush()

    def update(self, name: str, detail: str) -> None:
        now = time.monotonic()
        if now - self._said.get(name, 0.0) >= LINE_EVERY_S:
            self._said[name] = now
            self._line("  ", name, detail)

    def done(self, name: str, detail: str) -> None:
        self._line("ok", name, detail)

    def failed(self, name: str, detail: str) -> None:
        self._line("!!", name, detail)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class LiveProgress:
    """All steps as one table that is drawn again as they proceed."""

    def __init__(self, console: Console) -> None:
        self._steps: dict[str, Step] = {}
        self._began = time.monotonic()
        self._live = Live(
            get_renderable=self._table, console=console, refresh_per_second=8, transient=False
        )
        self._live.start()

    def _step(self, name: str) -> Step:
        return self._steps.setdefault(name, Step(name, began=time.monotonic()))

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim")
        table.add_column()
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        now = time.monotonic()
        for step in self._steps.values():
            took = step.took_s if step.took_s is not None else now - step.began
            mark = "[red]✗[/]" if step.failed else "[green]✓[/]" if step.took_s is not None else "…"
            table.add_row(f"{took:.1f} s", mark, step.name, step.detail)
        return table

    def _end(self, name: str, detail: str, *, failed: bool) -> None:
        step = self._step(name)
        step.detail, step.failed = detail, failed
        step.took_s = time.monotonic() - step.began

    def update(self, name: str, detail: str) -> None:
        self._step(name).detail = detail

    def done(self, name: str, detail: str) -> None:
        self._end(name, detail, failed=False)

    def failed(self, name: str, detail: str) -> None:
        self._end(name, detail, failed=True)

    def close(self) -> None:
        self._live.stop()


def progress_for(stream: TextIO = sys.stdout) -> JobProgress:
    """A live table if `stream` is a terminal, else lines."""
    if stream.isatty():
        return LiveProgress(Console(file=stream))
    return PlainProgress(stream)


def show_checks(checks: Sequence[Check], stream: TextIO = sys.stdout) -> None:
    """Print the table of checks."""
    console = Console(file=stream, width=None if stream.isatty() else 150)
    table = Table(title="The package's file against what landed")
    for column in ("", "claim", "from the file", "landed"):
        table.add_column(column, overflow="fold")
    for check in checks:
        mark = "[green]✓[/]" if check.holds else "[red]✗[/]"
        table.add_row(mark, check.claim, check.expected, check.found)
    console.print(table)
