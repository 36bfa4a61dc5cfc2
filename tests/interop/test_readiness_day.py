"""A healthy cluster under load is ready for a whole day of simulated time.

The nodes are real. The test takes some five minutes of CPU time.
"""

from __future__ import annotations

import pytest

from tests.unit.monitoring.test_readiness_drills import NODES, Drill

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7_200)]
DAY_S, LOOK_S, WRITE_S = 24 * 3_600, 1, 10


def test_a_healthy_cluster_is_ready_for_a_day() -> None:
    """Records are written every ten seconds; each node is looked at every second."""
    drill = Drill()
    drill.cluster.create_topic("t", replication=3)
    drill.recovers()
    said: list[tuple[int, int, dict[str, str]]] = []
    for second in range(0, DAY_S, LOOK_S):
        if second % WRITE_S == 0:
            drill.cluster.produce([b"%d" % number for number in range(second, second + 5)])
        drill.cluster.run(LOOK_S * 1_000)
        said += [(second, node, found) for node in NODES if (found := drill.failing(node))]
    assert not said
