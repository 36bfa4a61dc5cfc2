"""The result of ``make interop`` into docs/interop.md.

``python -m tools.interop_report RESULTS.xml... [--again RESULTS.xml]``.

Replaces the text between the two marks of that page: the day, the commit, the versions of all that took part,
and a row for each module of tests with what it shows (the first sentence of its docstring). A second table
has the programs that `tools.interop_programs` finds in the result.
"""

from __future__ import annotations

import argparse
import ast
import platform
import re
import subprocess
import xml.etree.ElementTree as ET
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tests.peers import KAFKA_VERSION
from tools import interop_programs

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "interop.md"
BEGIN, END = "<!-- result: begin -->", "<!-- result: end -->"
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")


class Case(NamedTuple):
    module: str
    name: str
    passed: bool
    seconds: float

    @property
    def place(self) -> str:
        """As pytest takes it."""
        return f"{self.module.replace('.', '/')}.py::{self.name}"


def cases(results: Path) -> list[Case]:
    """Of a JUnit file as pytest writes it."""
    found = []
    for case in ET.parse(results).getroot().iter("testcase"):
        bad = any(child.tag in ("failure", "error", "skipped") for child in case)
        found.append(
            Case(
                case.get("classname", ""), case.get("name", ""), not bad, float(case.get("time", 0))
            )
        )
    return found


def said_by(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return (done.stdout + done.stderr).strip()


def versions() -> list[str]:
    java = re.search(r'version "([^"]+)"', said_by("java", "-version"))
    kcat = re.search(r"Version (\S+).*librdkafka (\S+)", said_by("kcat", "-V"), re.DOTALL)
    return [
        f"Apache Kafka {KAFKA_VERSION} (brokers, controllers, Java clients, tools)",
        f"Java {java[1] if java else '?'}",
        f"kcat {kcat[1]} with librdkafka {kcat[2]}" if kcat else "kcat ?",
        *(f"{name} {version(name)}" for name in CLIENTS),
        f"Python {platform.python_version()}",
    ]


def day(results: Path) -> str:
    """The day on which the run began."""
    suite = next(ET.parse(results).getroot().iter("testsuite"))
    return suite.get("timestamp", "?").partition("T")[0]


def commit() -> str:
    changed = said_by("git", "status", "--porcelain", "--untracked-files=no", "src", "tests")
    return said_by("git", "rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def purpose(module: str) -> str:
    """What its docstring begins with."""
    path = ROOT / (module.replace(".", "/") + ".py")
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return re.split(r"(?<=[.:])\s", " ".join(text.split()))[0].rstrip(".:")


def table(found: list[Case], again: list[Case]) -> str:
    by_module: dict[str, list[Case]] = defaultdict(list)
    for case in found:
        by_module[case.module].append(case)
    lines = ["| tests | what they show | passed | failed | s |", "|---|---|---|---|---|"]
    for module, rows in sorted(by_module.items()):
        passed = sum(row.passed for row in rows)
        name = module.removeprefix("tests.").replace(".", "/")
        lines.append(
            f"| `{name}` | {purpose(module)} | {passed} | {len(rows) - passed or ''} |"
            f" {sum(row.seconds for row in rows):.0f} |"
        )
    passed = sum(case.passed for case in found)
    lines.append(
        f"| all | | {passed} | {len(found) - passed or ''} | {sum(c.seconds for c in found):.0f} |"
    )
    failed = [f"* {line}" for line in failures(found, again)]
    return "\n".join([*lines, "", *failed]) if failed else "\n".join(lines)


def failures(found: list[Case], again: list[Case]) -> list[str]:
    """What failed, and what became of it alone."""
    alone = {case.place: case.passed for case in again}
    ends = {True: "passed alone", False: "failed alone, too", None: "not tried again"}
    return [
        f"failed beside other tests, {ends[alone.get(case.place)]}: `{case.place}`"
        for case in found
        if not case.passed
    ]


def main(*results: Path, again: Path | None = None) -> None:
    """Write the page from all of `results`, which are parts of one run; what failed in them was tried `again`
    alone."""
    found = [case for part in results for case in cases(part)]
    alone = cases(again) if again is not None and again.exists() else []
    first = min(day(part) for part in results)
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    told = f"{first}, commit `{commit()}`; {'; '.join(versions())}.\n\n{table(found, alone)}"
    PAGE.write_text(f"{before}{BEGIN}\n{told}\n{END}{after}")
    for part in (*results, *([again] if alone and again is not None else [])):
        interop_programs.write(PAGE, part, first)


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("results", nargs="+", type=Path)
    given.add_argument("--again", type=Path)
    options = given.parse_args()
    main(*options.results, again=options.again)
