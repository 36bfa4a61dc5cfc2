"""Runs tests/scripts/streams and streams_assignor: each file is a claim, and its text is what happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.script_files import Run, check_file, files_of
from tests.unit.group.assignors_script import StreamsAssignorScript
from tests.unit.group.streams_script import StreamsScript

MACHINES: dict[str, Callable[[], Run]] = {
    "streams": lambda: StreamsScript().run,
    "streams_assignor": lambda: StreamsAssignorScript().run,
}


@pytest.mark.parametrize("path", files_of(*MACHINES), ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    check_file(path, MACHINES[path.parent.name]())


@pytest.mark.parametrize("folder", MACHINES)
def test_every_machine_has_scripts(folder: str) -> None:
    assert files_of(folder)
