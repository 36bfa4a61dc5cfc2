"""A node that was killed starts with damaged derived files, and has all that it acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.damaged_files import check

pytestmark = pytest.mark.process


def test_a_killed_node_rebuilds_its_derived_files(tmp_path: Path) -> None:
    check(tmp_path, 1, 1, 1, cleanly=False)
