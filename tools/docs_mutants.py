"""The table of docs/mutants.md: names and bugs as the planted bugs say them, finds as the last hunts
recorded."""

from __future__ import annotations

from pathlib import Path

from tests.sim.mutants import MUTANTS
from tests.sim.mutants.recorded import recorded

PAGE = Path(__file__).parent.parent / "docs" / "mutants.md"
BEGIN, END = "<!-- finds: begin -->\n", "<!-- finds: end -->\n"
HEAD = "| mutant | the bug | seed | seeds played | found by | what it said |\n|---|---|---|---|---|---|\n"


def mutants() -> str:
    """The page, with its table written again; what surrounds that is written by hand."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    finds = recorded()
    rows = []
    for mutant in MUTANTS:
        found = finds[mutant.name]
        where = f"{found.seed} | {found.seeds} | {found.judge} | {found.verdict}"
        rows.append(f"| {mutant.name} | {mutant.bug} | {where} |\n")
    return f"{before}{BEGIN}{HEAD}{''.join(rows)}{END}{after}"
