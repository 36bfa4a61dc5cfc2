"""The table of docs/mutants.md: each planted bug, and how the last recorded hunt found it."""

from __future__ import annotations

from pathlib import Path

from tests.sim.mutants import MUTANTS
from tests.sim.mutants.recorded import recorded

PAGE = Path(__file__).parent.parent / "docs" / "mutants.md"
BEGIN, END = "<!-- finds: begin -->\n", "<!-- finds: end -->\n"
HEAD = "| mutant | the bug | seed | seeds played | found by | what it said |\n|---|---|---|---|---|---|\n"


def mutants() -> str:
    """The page with its table generated; the text around the table is written by hand and stays."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    finds = recorded()
    rows = []
    for mutant in MUTANTS:
        found = finds[mutant.name]
        where = f"{found.seed} | {found.seeds} | {found.judge} | {found.verdict}"
        rows.append(f"| {mutant.name} | {mutant.bug} | {where} |\n")
    return f"{before}{BEGIN}{HEAD}{''.join(rows)}{END}{after}"
