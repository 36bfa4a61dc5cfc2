"""What hunts have found, kept in ``found.jsonl``: the table of docs/mutants.md is made of it.

A line per mutant, in any order. ``python -m tests.sim.mutants --record`` writes the lines of the mutants that
it found.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.sim.mutants.hunting import Found

FILE = Path(__file__).with_name("found.jsonl")


def recorded() -> dict[str, Found]:
    """The last find of each mutant, by name."""
    found = [Found(**json.loads(line)) for line in FILE.read_text("utf-8").splitlines()]
    return {one.name: one for one in found}


def record(finds: dict[str, Found]) -> None:
    """Replace the lines of `finds`."""
    lines = [json.dumps(found._asdict()) for _, found in sorted((recorded() | finds).items())]
    FILE.write_text("\n".join(lines) + "\n", "utf-8")
