"""Every script of tests/scripts/replication holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.replication.script_world import run_script

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts" / "replication").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    run_script(path.read_text(encoding="utf-8"))


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 15
