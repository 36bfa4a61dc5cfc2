"""Runs tests/scripts/transaction: each file is a claim, and its text is what happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.transaction.script import run_file

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts" / "transaction").glob("*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    present, wanted = run_file(path)
    if os.environ.get("BARNABAS_REWRITE"):
        path.write_text(wanted)
        return
    assert wanted == present
