"""Runs the scripts about share groups: each file is a claim, and its text is what happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.script_files import Run, check_file, files_of
from tests.unit.group.assignors_script import ShareAssignorScript
from tests.unit.share.coordinator_script import CoordinatorScript
from tests.unit.share.group_script import GroupScript
from tests.unit.share.leader_script import LeaderScript
from tests.unit.share.letters_script import LettersScript
from tests.unit.share.sessions_script import SessionsScript

MACHINES: dict[str, Callable[[], Run]] = {
    "share_assignor": lambda: ShareAssignorScript().run,
    "share_coordinator": lambda: CoordinatorScript().run,
    "share_dead_letters": lambda: LettersScript().run,
    "share_group": lambda: GroupScript().run,
    "share_partition": lambda: LeaderScript().run,
    "share_sessions": lambda: SessionsScript().run,
}


@pytest.mark.parametrize("path", files_of(*MACHINES), ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    check_file(path, MACHINES[path.parent.name]())


@pytest.mark.parametrize("folder", MACHINES)
def test_every_machine_has_scripts(folder: str) -> None:
    assert files_of(folder)
