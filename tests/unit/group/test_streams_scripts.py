"""Runs tests/scripts/streams: each file is a claim, and its text is what happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.group.streams_script import run_file

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts" / "streams").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    present, wanted = run_file(path)
    if os.environ.get("BARNABAS_REWRITE"):
        path.write_text(wanted)
        return
    assert wanted == present
