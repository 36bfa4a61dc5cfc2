"""Runs tests/scripts/share_coordinator and share_partition: each file is a claim, its text what happens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.share import coordinator_script, leader_script

SCRIPTS = Path(__file__).parents[2] / "scripts"
RUNNERS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "share_coordinator": coordinator_script.run_file,
    "share_partition": leader_script.run_file,
}
FILES = [path for folder in RUNNERS for path in sorted((SCRIPTS / folder).glob("*.txt"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    present, wanted = RUNNERS[path.parent.name](path)
    if os.environ.get("BARNABAS_REWRITE"):
        path.write_text(wanted)
        return
    assert wanted == present
