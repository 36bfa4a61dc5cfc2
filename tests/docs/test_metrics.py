"""docs/metrics.md has every metric that a cluster answers, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from tests.docs.blocks import ROOT, Reader

pytestmark = [pytest.mark.process, pytest.mark.slow]
SECTIONS = {
    "The active controller": "barnabas cluster metrics --json",
    "A broker": "barnabas cluster metrics --broker 1 --json",
    "The quorum": "barnabas quorum describe --metrics --json",
}


def test_the_page_has_the_metrics_of_a_cluster(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    with Cluster(nodes=1, directory=tmp_path) as cluster:
        reader = Reader(cluster)
        for title, command in SECTIONS.items():
            section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
            named = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
            assert named == list(json.loads(reader.shell(command))), title
