"""Other people's programs keep their data complete while nodes die and restart."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from tests.interop.programs.catalogue import PROGRAMS
from tests.interop.programs.harness import Program, Run

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]
ROUNDS = 3
DAY_S = 86_400


def chosen(programs: tuple[Program, ...], day: int, *, are_all: bool) -> list[Program]:
    """Those of one run: all, or each third one, so that three days in a row have all of them."""
    return [p for number, p in enumerate(programs) if are_all or number % ROUNDS == day % ROUNDS]


TODAY = chosen(PROGRAMS, int(time.time() // DAY_S), are_all=bool(os.environ.get("BARNABAS_ALL")))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"group.initial.rebalance.delay.ms": "200"}) as cluster:
        yield cluster


@pytest.mark.parametrize("program", TODAY, ids=lambda program: program.name)
def test_a_program_survives_a_killed_leader_and_a_rolling_restart(
    program: Program,
    cluster: Cluster,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    sentence = program.missing()
    if sentence is not None:
        pytest.skip(sentence)
    record_property("program", program.name)
    record_property("version", program.version())
    outcome = Run(cluster, program, tmp_path).through_deaths()
    record_property("numbers", outcome.numbers)
    record_property("doubles", outcome.doubles)
    if program.never_doubles:
        assert outcome.doubles == 0


def test_three_days_in_a_row_have_all_programs() -> None:
    days = [chosen(PROGRAMS, day, are_all=False) for day in range(ROUNDS)]
    assert sorted(p.name for day in days for p in day) == sorted(p.name for p in PROGRAMS)
    assert chosen(PROGRAMS, 0, are_all=True) == list(PROGRAMS)
