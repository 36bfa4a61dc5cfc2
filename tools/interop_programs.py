"""The table of other people's programs in docs/interop.md, from the results of ``make interop``.

A run tries some of the programs only, so that a row of an earlier run stays, with its day, until the program
is tried again. `tools.interop_report` calls `write`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

from tests.interop.programs.catalogue import ELSEWHERE, PROGRAMS, THROUGH

BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"
HEAD = "| program | version | what was tried | through | result | what bends | day |"


class Row(NamedTuple):
    """One program."""

    program: str
    version: str
    tried: str
    through: str
    result: str
    bends: str
    day: str

    def line(self) -> str:
        return f"| {' | '.join(self)} |"


def rows(results: Path, day: str) -> list[Row]:
    """Those of the programs that the JUnit file of pytest has results of."""
    by_program = {program.name: program for program in PROGRAMS}
    by_test = {other.test: other for other in ELSEWHERE}
    found = []
    for case in ET.parse(results).getroot().iter("testcase"):
        passed = not any(child.tag in ("failure", "error", "skipped") for child in case)
        told = {p.get("name", ""): p.get("value", "") for p in case.iter("property")}
        if program := by_program.get(told.get("program", "")):
            result = result_of(told) if passed else "**failed**"
            found.append(
                Row(
                    *(program.name, told["version"], program.tried, THROUGH, result),
                    *(program.bends, day),
                )
            )
        elif other := by_test.get(case.get("name", "").partition("[")[0]):
            result = "complete" if passed else "**failed**"
            found.append(
                Row(
                    *(other.name, other.version, other.tried, other.through, result),
                    *(other.bends, day),
                )
            )
    return found


def result_of(told: dict[str, str]) -> str:
    doubles = int(told.get("doubles", "0"))
    return f"{int(told['numbers']):,} complete" + (f", {doubles:,} doubles" if doubles else "")


def merged(text: str, new: list[Row]) -> str:
    """`text` with the new rows in its table, sorted by name, beside those that this run did not try."""
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    lines = {row.program: row.line() for row in new}
    for line in old.splitlines():
        name = line.strip("| ").partition(" | ")[0]
        if line.startswith("| ") and line != HEAD:
            lines.setdefault(name, line)
    table = [HEAD, "|---|---|---|---|---|---|---|"]
    table += [lines[name] for name in sorted(lines, key=str.casefold)]
    return f"{before}{BEGIN}\n" + "\n".join(table) + f"\n{END}{after}"


def write(page: Path, results: Path, day: str) -> None:
    page.write_text(merged(page.read_text(), rows(results, day)))
