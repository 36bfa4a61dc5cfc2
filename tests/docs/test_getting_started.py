"""docs/getting-started.md does what it says, block after block, on a cluster of three processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from tests.docs.blocks import NOT_RUN, QUICK, Reader, blocks

pytestmark = [pytest.mark.process, pytest.mark.slow]
PAGE = "docs/getting-started.md"


def test_the_page_runs_from_its_first_block_to_its_last(tmp_path: Path) -> None:
    said: list[str] = []
    with Cluster(3, tmp_path, QUICK) as cluster:
        reader = Reader(cluster)
        for block in blocks(PAGE):
            if NOT_RUN in block.words:
                continue
            if "up" in block.words:
                # What `Cluster` has done, but for the ports.
                assert block.text == "barnabas up --nodes 3 --data ./cluster --port 9092\n"
            else:
                run = {"sh": reader.shell, "python": reader.python}[block.language]
                said.append(run(block.text))
    output = "".join(said)
    for result in ("1000\n", "1002\n", "2002\n", "2003 records\n"):
        assert result in output
