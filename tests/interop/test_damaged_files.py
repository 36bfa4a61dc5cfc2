"""Real nodes with damaged derived files: one and three nodes, one and all damaged, killed and stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.damaged_files import check

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize(("nodes", "damaged"), [(1, 1), (3, 1), (3, 3)])
def test_nothing_is_lost(tmp_path: Path, nodes: int, damaged: int, cleanly: bool) -> None:
    check(tmp_path, nodes, damaged, 10 * nodes + 2 * damaged + cleanly, cleanly=cleanly)
