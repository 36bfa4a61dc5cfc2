"""The table of other people's programs keeps the rows of programs that a run did not try."""

from __future__ import annotations

import re
from pathlib import Path

from tests.interop.programs.catalogue import ELSEWHERE, PROGRAMS
from tools.interop_programs import BEGIN, END, merged, rows

ROOT = Path(__file__).parents[3]
RESULTS = """<testsuites><testsuite>
<testcase name="test_a_program_survives_a_killed_leader_and_a_rolling_restart[kcat]" classname="c" time="1">
<properties><property name="program" value="kcat"/><property name="version" value="1.7.1"/>
<property name="numbers" value="1200"/><property name="doubles" value="3"/></properties></testcase>
<testcase name="test_a_program_survives_a_killed_leader_and_a_rolling_restart[Faust]" classname="c" time="1">
<properties><property name="program" value="Faust"/><property name="version" value="0.15"/></properties>
<failure message="no"/></testcase>
<testcase name="test_spring_listener_survives_a_leader_s_death" classname="c" time="1"/>
<testcase name="test_of_something_else" classname="c" time="1"/>
</testsuite></testsuites>"""
BEFORE = f"Above.\n{BEGIN}\n| kcat | 1.0 | old |\n| sarama | 1.6 | kept |\n{END}\nBelow.\n"


def test_a_run_replaces_the_rows_of_what_it_tried(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    results.write_text(RESULTS)
    found = rows(results, "2026-11-27")
    assert [(row.program, row.result) for row in found] == [
        ("kcat", "1,200 complete, 3 doubles"),
        ("Faust", "**failed**"),
        ("Spring Kafka's transactions", "complete"),
    ]
    text = merged(BEFORE, found)
    names = re.findall(r"(?m)^\| ([^|\n]+?) \|", text.partition("|---|")[2])
    assert names == ["Faust", "kcat", "sarama", "Spring Kafka's transactions"]
    assert "| sarama | 1.6 | kept |" in text and "| kcat | 1.0 |" not in text
    assert merged(text, found) == text
    assert text.startswith("Above.") and text.endswith("Below.\n")


def test_each_program_has_one_row() -> None:
    names = [program.name for program in (*PROGRAMS, *ELSEWHERE)]
    assert len(names) == len(set(names))


def test_a_program_that_another_test_runs_names_that_test() -> None:
    sources = "".join(
        path.read_text()
        for folder in ("clients", "interop")
        for path in (ROOT / "tests" / folder).glob("test_*.py")
    )
    assert [other.test for other in ELSEWHERE if f"def {other.test}(" not in sources] == []
