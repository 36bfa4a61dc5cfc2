"""Bugs of share groups that need an instant which seeds hardly ever meet: a script finds each of them.

Each is planted as the simulator's bugs are (tests/sim/mutants), and a script is no longer true then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.share.share_partition import SharePartition
from barnabas.share.state import ShareState
from tests.sim.mutants.planting import Mutant, Patch
from tests.unit.share import coordinator_script, leader_script

SCRIPTS = Path(__file__).parents[2] / "scripts"
Runner = Callable[[Path], tuple[str, str]]


def foreign_acknowledgement() -> list[Patch]:
    return [(SharePartition, "_check", lambda self, told, limits, *more: None)]


def fenced_leader_writes() -> list[Patch]:
    return [(ShareState, "is_fenced", lambda self, leader_epoch: False)]


FOUND: tuple[tuple[Mutant, Runner, str], ...] = (
    (
        Mutant(
            "foreign-acknowledgement",
            "an acknowledgement counts from a member that lost the record",
            foreign_acknowledgement,
        ),
        leader_script.run_file,
        "share_partition/a_record_is_at_one_member_until_its_lock_ends.txt",
    ),
    (
        Mutant(
            "fenced-share-leader-writes",
            "a share coordinator takes writes of a former leader",
            fenced_leader_writes,
        ),
        coordinator_script.run_file,
        "share_coordinator/a_leader_that_reads_fences_the_one_before.txt",
    ),
)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found[0].name)
def test_a_script_finds_a_planted_bug(found: tuple[Mutant, Runner, str]) -> None:
    mutant, run_file, name = found
    present, wanted = run_file(SCRIPTS / name)
    assert present == wanted
    with mutant.planted():
        try:
            present, wanted = run_file(SCRIPTS / name)
        except AssertionError:
            return  # an assertion of the machine objects
    assert present != wanted
