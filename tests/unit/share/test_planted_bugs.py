"""Bugs of share groups that need an instant which seeds hardly ever meet: a script finds each of them.

Each is planted as the simulator's bugs are (tests/sim/mutants), and a script is no longer true then.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.broker.share.share_partition import SharePartition
from barnabas.share.state import ShareState
from tests.script_files import SCRIPTS, Run, texts_of
from tests.sim.mutants.planting import Mutant, Patch
from tests.unit.share.coordinator_script import CoordinatorScript
from tests.unit.share.leader_script import LeaderScript

New = Callable[[], Run]


def foreign_acknowledgement() -> list[Patch]:
    return [(SharePartition, "_check", lambda self, told, limits, *more: None)]


def fenced_leader_writes() -> list[Patch]:
    return [(ShareState, "is_fenced", lambda self, leader_epoch: False)]


FOUND: tuple[tuple[Mutant, New, str], ...] = (
    (
        Mutant(
            "foreign-acknowledgement",
            "an acknowledgement counts from a member that lost the record",
            foreign_acknowledgement,
        ),
        lambda: LeaderScript().run,
        "share_partition/a_record_is_at_one_member_until_its_lock_ends.txt",
    ),
    (
        Mutant(
            "fenced-share-leader-writes",
            "a share coordinator takes writes of a former leader",
            fenced_leader_writes,
        ),
        lambda: CoordinatorScript().run,
        "share_coordinator/a_leader_that_reads_fences_the_one_before.txt",
    ),
)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found[0].name)
def test_a_script_finds_a_planted_bug(found: tuple[Mutant, New, str]) -> None:
    mutant, new, name = found
    present, wanted = texts_of(SCRIPTS / name, new())
    assert present == wanted
    with mutant.planted():
        try:
            present, wanted = texts_of(SCRIPTS / name, new())
        except AssertionError:
            return  # an assertion of the machine objects
    assert present != wanted
