"""Runs tests/scripts/raft: each file is a claim, and its text is what happens.

``BARNABAS_REWRITE=1`` writes what happens now into the files, to be reviewed as a diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.raft.script import Script

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text()
    happened = Script().run(text)
    if os.environ.get("BARNABAS_REWRITE"):
        path.write_text(happened)
    assert happened == text
