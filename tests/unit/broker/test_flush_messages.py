"""``flush.messages=1``: an acknowledged record is found again, though all lose power at once."""

from __future__ import annotations

import pytest

from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.decode import records_in
from tests.unit.broker.world import Cluster, name


def lose_power_everywhere(cluster: Cluster) -> None:
    for node in cluster.sim.nodes.values():
        node.kill(power_loss=True)
    for node in cluster.sim.nodes.values():
        node.start()
    cluster.until(
        lambda: all(cluster.broker(n).lifecycle.phase.value == "running" for n in cluster.ids)
    )


def values_on(cluster: Cluster, node: int) -> list[bytes]:
    log = cluster.partition(node).log
    assert log is not None
    read = log.read(log.log_start_offset, 1 << 20)
    assert read is not None
    return [bytes(record.value or b"") for record in records_in(memoryview(read.records))]


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "acks"), [(1, 1), (1, -1), (3, -1)])
def test_an_answered_record_survives_a_power_loss_of_all(nodes: int, acks: int) -> None:
    lost_without = 0
    for flush in ("1", None):
        for seed in range(6):
            cluster = Cluster(nodes, seed=seed)
            cluster.create_topic("t", replication=nodes, flush_messages=flush or str(1 << 62))
            cluster.leader("t")
            for at in range(3):
                assert cluster.produce([b"%d" % at], acks=acks).error_code == 0
            lose_power_everywhere(cluster)
            found = values_on(cluster, cluster.leader("t"))
            if flush:
                assert found == [b"0", b"1", b"2"], (seed, found)
            else:
                lost_without += len(found) < 3
    assert lost_without  # else this test would show nothing


def test_appends_that_come_together_share_a_sync() -> None:
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="1")
    node = cluster.leader("t")
    cluster.produce([b"first"], acks=1)
    before = cluster.sim.nodes[node].machine.disk.totals["syncs"]
    request = cluster.produce_request([b"x"], acks=1)
    request.topic_data[0].name = ""
    answers = [cluster.ask_later(request, node, 13, purpose=str(at)) for at in range(20)]
    cluster.until(lambda: all(answer.is_there for answer in answers))
    assert len(values_on(cluster, node)) == 21
    assert 1 <= cluster.sim.nodes[node].machine.disk.totals["syncs"] - before < 20


def test_every_n_messages() -> None:
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="5")
    log = cluster.partition(cluster.leader("t")).log
    assert log is not None
    for at in range(4):
        cluster.produce([b"%d" % at], acks=1)
        assert log.high_watermark == at + 1 and log.durability.unsynced_messages == at + 1
    cluster.produce([b"4"], acks=1)
    assert log.durability.unsynced_messages == 0 and log.high_watermark == 5


def test_flush_ms_syncs_what_is_older() -> None:
    cluster = Cluster(log_flush_scheduler_interval_ms="1000")
    cluster.create_topic("t", flush_ms="5000")
    log = cluster.partition(cluster.leader("t")).log
    assert log is not None
    cluster.run(60_000)
    cluster.produce([b"x"])
    assert log.recovery_point == 0
    cluster.run(7000)
    assert log.recovery_point == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_records_unsynced_at_a_kill_count_once_the_next_process_syncs(seed: int) -> None:
    cluster = Cluster(1, seed=seed)
    cluster.create_topic("t", flush_messages="1")
    node = cluster.sim.nodes[cluster.leader("t")]
    cluster.produce([b"first"], acks=1)
    node.machine.sync_ms_max = 10_000.0
    request = cluster.produce_request([b"second"], acks=1)
    request.topic_data[0].name = ""
    answer = cluster.ask_later(request, node.id, 13)
    cluster.until(lambda: len(values_on(cluster, 1)) == 2)
    node.kill()
    assert not answer.is_there
    node.machine.sync_ms_max = 1.5
    node.start()
    cluster.leader("t")
    cluster.until(lambda: cluster.partition(1).high_watermark == 2)
    lose_power_everywhere(cluster)
    assert values_on(cluster, cluster.leader("t")) == [b"first", b"second"]


def test_a_disk_that_fails_in_the_first_sync_after_a_crash_is_offline() -> None:
    """It was synced before the broker knew of the replica, which had a log that was gone (seed 604479)."""
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="2")
    cluster.produce([b"0"], acks=1)
    node = cluster.sim.nodes[1]
    node.kill()
    with pytest.MonkeyPatch.context() as patch:

        def after_append(self: LogDirectories, log: PartitionLog, *_: object) -> None:
            self.fail_log(log.partition, OSError("the disk failed"))

        patch.setattr(LogDirectories, "after_append", after_append)
        patch.setattr(PartitionLog, "flush_is_due", True)
        node.start()
        cluster.until(lambda: name("t") in cluster.broker(1).replicas.by_name)
    assert cluster.partition(1).log is None
