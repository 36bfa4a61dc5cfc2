"""The table of metrics, of which docs/metrics.md is made, has what commands show, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.monitoring.metric import parse_rows
from barnabas.monitoring.sources.counted import RAFT
from barnabas.monitoring.table import SECTIONS as SECTIONS_OF_THE_TABLE
from barnabas.testing.cluster import Cluster
from tests.docs.blocks import Reader

pytestmark = [pytest.mark.process, pytest.mark.slow]
SECTIONS = {
    "The active controller": "barnabas cluster metrics --json",
    "Coordinators and quotas of a broker": "barnabas cluster metrics --broker 1 --json",
    "The quorum": "barnabas quorum describe --metrics --json",
}
CHANNEL = "kafka.server:type=raft-channel-metrics,"
"""Metrics of the quorum's connections, which the endpoint alone has."""
SHARES = (
    "kafka.server:type=ShareGroupMetrics,", "kafka.server:type=SharePartitionMetrics,",
    "barnabas.share:type=SharePartitions,",
)  # fmt: skip
"""Metrics of share groups, which are there from the first request of a member on."""
UNNAMED = {"current-state", "current-vote-directory-id"}
"""Figures of the quorum that are no numbers: the endpoint shows a state as a label."""


def test_the_table_has_the_metrics_that_commands_show(tmp_path: Path) -> None:
    with Cluster(nodes=1, directory=tmp_path) as cluster:
        reader = Reader(cluster)
        for title, command in SECTIONS.items():
            named = [metric.mbean for metric in parse_rows(SECTIONS_OF_THE_TABLE[title])]
            named = [name for name in named if not name.startswith((CHANNEL, *SHARES))]
            named = [name.removeprefix(RAFT) for name in named if ":" in name]
            answered = json.loads(reader.shell(command))
            assert sorted(named) == sorted(name for name in answered if name not in UNNAMED), title
