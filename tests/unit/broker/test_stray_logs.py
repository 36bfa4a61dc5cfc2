"""Logs that a broker finds at its start and that are no replica of it stay on disk under another name."""

from __future__ import annotations

import pytest

from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.unit.broker.world import Cluster


def names(cluster: Cluster, node: int) -> list[str]:
    disk = cluster.sim.nodes[node].machine.disk
    found = {path.split("/")[2] for path in disk.names if path.startswith("/data/t-0")}
    return sorted(found)


def stop(cluster: Cluster, node: int) -> None:
    done: list[bool] = []
    cluster.sim.nodes[node].shut_down(lambda: done.append(True))
    cluster.until(lambda: done)


def start(cluster: Cluster, node: int) -> None:
    cluster.sim.nodes[node].start()
    cluster.until(lambda: cluster.broker(node).lifecycle.phase.value == "running")


def delete_topic(cluster: Cluster) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000)
    cluster.ask(request, cluster.ids[0])
    cluster.until(
        lambda: all("t" not in cluster.broker(n).image.topics_by_name for n in cluster.ids)
    )


def cluster_with_a_follower_down() -> tuple[Cluster, int]:
    cluster = Cluster(3)
    cluster.create_topic("t", replication=3)
    cluster.produce([b"of the first topic"])
    node = next(n for n in cluster.ids if n != cluster.leader("t"))
    log = cluster.partition(node).log
    assert log is not None
    cluster.until(lambda: log.log_end_offset == 1)
    stop(cluster, node)
    return cluster, node


@pytest.mark.slow
@pytest.mark.parametrize("recreated", [False, True])
def test_the_log_of_a_topic_deleted_meanwhile_is_set_aside(recreated: bool) -> None:
    cluster, node = cluster_with_a_follower_down()
    delete_topic(cluster)
    if recreated:
        cluster.create_topic("t", replication=2)
        cluster.produce([b"of the second one"] * 3)
    start(cluster, node)
    cluster.until(lambda: any(found.endswith("-stray") for found in names(cluster, node)))
    (stray,) = (found for found in names(cluster, node) if found.endswith("-stray"))
    assert stray.startswith("t-0.")
    disk = cluster.sim.nodes[node].machine.disk
    content = bytes(disk.file(f"/data/{stray}/{0:020d}.log").data)
    assert b"of the first topic" in content
    partition = cluster.broker(node).replicas.by_name.get(("t", 0))
    if partition is not None:
        log = partition.log
        assert recreated and log is not None
        cluster.until(lambda: log.log_end_offset == 3)
    # It stays, and the next start does not open it.
    stop(cluster, node)
    start(cluster, node)
    assert stray in names(cluster, node)
    assert bytes(disk.file(f"/data/{stray}/{0:020d}.log").data) == content


def test_a_log_whose_topic_id_is_lost_is_set_aside_and_fetched_again() -> None:
    cluster, node = cluster_with_a_follower_down()
    disk = cluster.sim.nodes[node].machine.disk
    del disk.names["/data/t-0/partition.metadata"]
    start(cluster, node)
    # The controller does not learn that it still has what it had.
    assert cluster.broker(node).logs.previous_broker_epoch == -1
    log = cluster.partition(node).log
    assert log is not None
    cluster.until(lambda: log.log_end_offset == 1)
    assert sum(found.endswith("-stray") for found in names(cluster, node)) == 1
    assert "/data/t-0/partition.metadata" in disk.names


def test_a_directory_with_a_corrupt_topic_id_goes_offline() -> None:
    cluster, node = cluster_with_a_follower_down()
    disk = cluster.sim.nodes[node].machine.disk
    disk.rot("/data/t-0/partition.metadata", 5, 3)
    cluster.sim.nodes[node].start()
    assert not cluster.sim.nodes[node].is_up  # its only directory
    assert names(cluster, node) == ["t-0"]


@pytest.mark.slow
@pytest.mark.parametrize("nonempty", [False, True])
def test_a_topic_id_that_a_power_loss_tore_takes_no_directory_offline(nonempty: bool) -> None:
    """Also not where the node ended cleanly before it was in the cluster again (seed 51003)."""
    cluster, node = cluster_with_a_follower_down()
    disk = cluster.sim.nodes[node].machine.disk
    disk.file("/data/t-0/partition.metadata").data[:] = bytes(20)
    if nonempty:
        del disk.names["/data/.kafka_cleanshutdown"]  # it was no clean shutdown
    else:
        for path in [p for p in disk.names if p.startswith("/data/t-0/0000")]:
            del disk.names[path]
    start(cluster, node)
    assert cluster.broker(node).logs.directories[0].is_online
    log = cluster.partition(node).log
    assert log is not None
    cluster.until(lambda: log.log_end_offset == 1)
    assert sum(found.endswith("-stray") for found in names(cluster, node)) == nonempty
