"""Two brokers of Apache Kafka 3.9.1 and one of ours on one ZooKeeper, ours the controller.

Kafka's brokers ignore a LeaderAndIsr with the leader epoch that they have, and those with an
inter.broker.protocol.version below 2.7 write the state znodes of their partitions themselves: the
controller has to raise leader epochs, and to take over what they wrote.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.zookeeper.layout.request_znodes import ISR_CHANGES
from tests.interop.mixed_cluster import PARTITIONS, MixedCluster, mixed_cluster, wait_until

THEIRS, OURS = (1, 2), 3
pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]


@pytest.fixture(params=["2.6", "3.9"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("reverse")
    version = {"inter.broker.protocol.version": request.param}
    with mixed_cluster(directory, theirs=THEIRS, keys_of_theirs=version) as cluster:
        yield cluster


def leader_epochs(cluster: MixedCluster, topic: str) -> list[int]:
    states = f"/brokers/topics/{topic}/partitions"
    return [cluster.read(f"{states}/{n}/state")["leader_epoch"] for n in range(PARTITIONS)]


def controller_epoch(cluster: MixedCluster) -> int:
    return int(cluster.znodes.get("/controller_epoch")[0])


def test_isrs_become_whole_again_after_each_of_theirs_died(cluster: MixedCluster) -> None:
    for broker in (OURS, *THEIRS):
        cluster.start(broker)
    assert cluster.controller == OURS
    cluster.create("t")
    assert cluster.leaders("t") == {OURS, *THEIRS}
    epoch, known = controller_epoch(cluster), 0
    for broker in THEIRS:
        before = leader_epochs(cluster, "t")
        cluster.kill(broker)
        wait_until(lambda: broker not in cluster.members("t"), "a smaller ISR")  # noqa: B023
        assert all(a > b for a, b in zip(leader_epochs(cluster, "t"), before, strict=True))
        cluster.produce("t", range(known, known + 300))
        known += 300
        cluster.restart_theirs(broker)
        cluster.wait_for_all("t")
        wait_until(lambda: cluster.znodes.get_children(ISR_CHANGES) == [], "notifications")
    assert cluster.values("t", known) == list(range(known))
    assert cluster.controller == OURS
    if cluster.keys_of_theirs["inter.broker.protocol.version"] != "2.6":
        # There a state that a leader wrote and has not told yet ends the office: the next one reads it.
        assert controller_epoch(cluster) == epoch
