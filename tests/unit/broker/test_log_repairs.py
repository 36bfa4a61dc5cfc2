"""A batch rots on one broker of three: readers never see it, and it comes back from the others."""

from __future__ import annotations

import pytest

from barnabas.log.file_names import LOG
from barnabas.log.partition import segment_repair
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.batch import iterate
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode
from tests.unit.broker.world import Cluster, code

NAME = TopicPartition("t", 0)


def written(nodes: int = 3) -> tuple[Cluster, int]:
    """A cluster whose topic has many small segments on every replica, and who leads."""
    cluster = Cluster(nodes)
    cluster.create_topic("t", replication=nodes, internal_segment_bytes="400")
    leader = cluster.leader("t")
    for at in range(12):
        cluster.produce([b"record %d" % at] * 3, node=leader)
    everywhere = [log_on(cluster, node) for node in cluster.ids]
    cluster.until(lambda: all(log.high_watermark == 36 for log in everywhere))
    assert all(len(log.segments) > 3 for log in everywhere)
    return cluster, leader


def log_on(cluster: Cluster, node: int) -> PartitionLog:
    log = cluster.broker(node).replicas.by_name[NAME].log
    assert log is not None
    return log


def rot(cluster: Cluster, node: int) -> str:
    """Flip a bit of a record in an old segment, and forget that this process wrote it."""
    log = log_on(cluster, node)
    segment = log.segments[1]
    segment.checked.trusted_from = segment.size
    cluster.sim.nodes[node].machine.disk.rot(segment.path, 100)
    return segment.path


def everything(log: PartitionLog) -> list[bytes]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1)
        assert read is not None
        (batch,) = iterate(read.records, crc=True)
        found.append(bytes(batch.data))
        offset = batch.header.next_offset
    return found


def consume(cluster: Cluster, node: int) -> list[bytes]:
    """Everything that a consumer gets from `node`, however long it has to wait."""
    values = list[bytes]()
    while len(values) < 36:
        data = cluster.fetch(len(values), node=node, partition_bytes=1)
        if data.error_code:
            assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and not data.records
            cluster.run(10)
            continue
        values += cluster.values(data)
    return values


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_corrupt_batch_is_reported_not_served_and_mended_from_another_replica(role: str) -> None:
    cluster, leader = written()
    node = leader if role == "leader" else next(n for n in cluster.ids if n != leader)
    sound = everything(log_on(cluster, node))
    path = rot(cluster, node)
    refused = cluster.fetch(node=node, offset=log_on(cluster, node).segments[1].base_offset)
    assert code(refused.error_code) == "KAFKA_STORAGE_ERROR" and not refused.records
    (damaged,) = cluster.broker(node).repairs.describe()
    assert damaged["file"] == path and damaged["position"] == 0
    assert consume(cluster, node) == [b"record %d" % (at // 3) for at in range(36)]
    assert everything(log_on(cluster, node)) == sound
    assert cluster.broker(node).repairs.mended == 1
    # No replica left the ISR for it, and the leader leads on.
    assert cluster.leader("t") == leader
    assert len(cluster.broker(leader).image.topics_by_name["t"].partition(0).isr) == 3
    cluster.produce([b"more"], node=leader)


@pytest.mark.parametrize("left", [0, 100])
def test_a_segment_that_gets_shorter_is_mended(left: int) -> None:
    cluster, leader = written()
    sound, log = everything(log_on(cluster, leader)), log_on(cluster, leader)
    cluster.sim.nodes[leader].machine.disk.file(log.segments[1].path).truncate(left)
    assert consume(cluster, leader) == [b"record %d" % (at // 3) for at in range(36)]
    assert everything(log_on(cluster, leader)) == sound
    assert cluster.broker(leader).repairs.mended == 1


@pytest.mark.slow
def test_a_segment_missing_after_a_clean_shutdown_is_repaired_before_a_read() -> None:
    """Who has its batches yet may be taken away (seed 100665)."""
    cluster, leader = written()
    node = next(n for n in cluster.ids if n != leader)
    before = log_on(cluster, node)
    stem, sound, ended = before.segments[1].path.removesuffix(LOG), everything(before), list[bool]()
    cluster.sim.nodes[node].shut_down(lambda: ended.append(True))
    cluster.until(lambda: bool(ended))
    disk = cluster.sim.nodes[node].machine.disk
    disk.lose([path for path in disk.names if path.startswith(stem)])
    cluster.sim.nodes[node].start()
    cluster.until(lambda: cluster.broker(node).repairs.mended == 1)
    assert everything(log_on(cluster, node)) == sound


@pytest.mark.slow
def test_a_damage_that_reaches_behind_where_logs_diverge_is_mended_up_to_there() -> None:
    """The follower could not cut its log within what is damaged (seed 401787)."""
    cluster = Cluster(3)
    cluster.create_topic(
        "t",
        replication=2,
        internal_segment_bytes="400",
        min_insync_replicas="1",
        unclean_leader_election_enable="true",
    )
    former = cluster.leader("t")
    state = cluster.broker(former).image.topics_by_name["t"].partition(0)
    later = next(node for node in state.replicas if node != former)
    cluster.produce([b"of both"] * 3, node=former)
    cluster.until(lambda: log_on(cluster, later).high_watermark == 3)
    cluster.sim.nodes[later].kill()
    for at in range(12):
        cluster.produce([b"of the former leader %d" % at] * 3, node=former, acks=1)
    cluster.until(lambda: log_on(cluster, former).high_watermark == 39, 60_000)
    stem, ended = log_on(cluster, former).segments[0].path.removesuffix(LOG), list[bool]()
    assert log_on(cluster, former).segments[1].base_offset > 3
    cluster.sim.nodes[former].shut_down(lambda: ended.append(True))
    cluster.until(lambda: bool(ended))
    disk = cluster.sim.nodes[former].machine.disk
    disk.lose([path for path in disk.names if path.startswith(stem)])
    cluster.sim.nodes[later].start()
    cluster.until(lambda: cluster.leader("t") == later, 60_000)
    for at in range(4):
        cluster.produce([b"of the later leader %d" % at], node=later, acks=1)
    cluster.sim.nodes[former].start()
    broker = cluster.broker(former)
    cluster.until(lambda: NAME in broker.replicas.by_name, 60_000)
    cluster.until(lambda: log_on(cluster, former).high_watermark == 7, 60_000)
    assert everything(log_on(cluster, former)) == everything(log_on(cluster, later))
    assert broker.repairs.mended == 1


def test_a_leader_that_is_alone_reports_the_batch_as_corrupt() -> None:
    cluster, leader = written(nodes=1)
    rot(cluster, leader)
    offset = log_on(cluster, leader).segments[1].base_offset
    answer = cluster.fetch(offset, node=leader)
    assert code(answer.error_code) == "CORRUPT_MESSAGE" and not answer.records
    cluster.run(3000)
    (damaged,) = cluster.broker(leader).repairs.describe()
    assert damaged["why_not"] == "no other broker has a replica" and damaged["attempts"] == 2
    # What is sound is served as before.
    assert cluster.values(cluster.fetch(0, node=leader, partition_bytes=1))


@pytest.mark.slow
def test_a_corrupt_range_is_repaired_once_a_replica_with_it_is_back() -> None:
    cluster, leader = written()
    others = [node for node in cluster.ids if node != leader]
    at = rot(cluster, leader)
    for node in others[:1]:
        cluster.sim.nodes[node].kill()
    # The other one has the same damage: both wait for the third.
    log_on(cluster, others[1]).segments[1].checked.trusted_from = 1 << 30
    cluster.sim.nodes[others[1]].machine.disk.rot(at, 100)
    offset = log_on(cluster, leader).segments[1].base_offset
    assert cluster.fetch(offset, node=leader).error_code
    cluster.run(4000)
    assert cluster.broker(leader).repairs.mended == 0
    cluster.sim.nodes[others[0]].start()
    cluster.until(lambda: cluster.broker(leader).repairs.mended == 1, 120_000)
    assert consume(cluster, leader) == [b"record %d" % (at // 3) for at in range(36)]


@pytest.mark.slow
def test_an_uncommitted_corrupt_batch_is_repaired_from_a_follower_with_it() -> None:
    """The leader's copy rots above the high watermark, and a member of the ISR still needs it."""
    cluster = Cluster(3)
    cluster.create_topic("t", replication=3, internal_segment_bytes="400", min_insync_replicas="3")
    leader = cluster.leader("t")
    cluster.produce([b"committed"], node=leader)
    other, late = (node for node in cluster.ids if node != leader)
    cluster.until(lambda: log_on(cluster, late).log_end_offset == 1)
    cluster.sim.nodes[late].kill()
    for at in range(12):
        cluster.produce([b"record %d" % at] * 3, node=leader, acks=1)
    cluster.until(lambda: log_on(cluster, other).log_end_offset == 37)
    assert log_on(cluster, leader).high_watermark == log_on(cluster, other).high_watermark == 1
    sound = everything(log_on(cluster, leader))
    rot(cluster, leader)
    cluster.sim.nodes[late].start()
    cluster.until(lambda: cluster.broker(leader).repairs.mended == 1, 60_000)
    cluster.until(lambda: log_on(cluster, leader).high_watermark == 37, 60_000)
    assert everything(log_on(cluster, leader)) == everything(log_on(cluster, late)) == sound
    assert cluster.leader("t") == leader


@pytest.mark.slow
def test_a_log_that_lost_its_tail_after_a_clean_shutdown_is_reported() -> None:
    cluster, leader = written()
    node = next(n for n in cluster.ids if n != leader)
    path = log_on(cluster, node).active.path
    done: list[bool] = []
    cluster.sim.nodes[node].shut_down(lambda: done.append(True))
    cluster.until(lambda: done)
    cluster.sim.nodes[node].machine.disk.rot(path, 16, 3)  # the format of the last segment's batch
    cluster.sim.nodes[node].start()
    assert cluster.broker(node).logs.previous_broker_epoch == -1
    cluster.until(lambda: cluster.broker(node).lifecycle.phase.value == "running")
    cluster.until(lambda: log_on(cluster, node).log_end_offset == 36)


@pytest.mark.slow
def test_batches_of_a_segment_that_are_gone_come_back_from_another_replica() -> None:
    cluster, leader = written()
    node = next(n for n in cluster.ids if n != leader)
    sound, path = everything(log_on(cluster, node)), log_on(cluster, node).segments[2].path
    done: list[bool] = []
    cluster.sim.nodes[node].shut_down(lambda: done.append(True))
    cluster.until(lambda: done)
    del cluster.sim.nodes[node].machine.disk.names[path]
    cluster.sim.nodes[node].start()
    cluster.until(lambda: cluster.broker(node).lifecycle.phase.value == "running")
    cluster.until(lambda: log_on(cluster, node).high_watermark == 36)
    assert consume(cluster, node) == [b"record %d" % (at // 3) for at in range(36)]
    assert everything(log_on(cluster, node)) == sound


@pytest.mark.slow
def test_a_damage_is_looked_at_again_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, leader = written()
    rot(cluster, leader)
    examine = segment_repair.examine

    def fail(place: segment_repair.SegmentLocation) -> segment_repair.Damage | None:
        monkeypatch.setattr(segment_repair, "examine", examine)
        raise MemoryError("for a moment")

    monkeypatch.setattr(segment_repair, "examine", fail)
    cluster.fetch(node=leader, offset=log_on(cluster, leader).segments[1].base_offset)
    with pytest.raises(MemoryError):
        cluster.run(1000)
    cluster.until(lambda: cluster.broker(leader).repairs.mended == 1)


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [3, 4], ids=["as a whole", "in part"])
def test_a_damage_before_the_log_start_hides_nothing_behind_it(deleted: int) -> None:
    """Deleted records are nowhere any more: asked for them everybody answers OFFSET_OUT_OF_RANGE."""
    cluster, leader = written()
    log = log_on(cluster, leader)
    segment = log.segments[1]
    assert len(list(segment.headers())) > 2
    start = segment.base_offset + deleted
    cluster.partition(leader).delete_records(start)
    cluster.until(lambda: all(log_on(cluster, n).log_start_offset == start for n in cluster.ids))
    segment.checked.trusted_from = segment.size
    second = segment.position_of_batch_with(segment.base_offset + 3)
    assert second is not None
    disk = cluster.sim.nodes[leader].machine.disk
    disk.rot(segment.path, 16)  # the first batch's format: nothing is found behind it
    if deleted > 3:
        disk.rot(segment.path, second + 16)
    assert code(cluster.fetch(start, node=leader).error_code) == "KAFKA_STORAGE_ERROR"
    cluster.run(5000)
    assert cluster.values(cluster.fetch(start, node=leader))
    mended = log.segments[1]
    assert mended.base_offset == segment.base_offset
    assert next(mended.headers()).header.base_offset == segment.base_offset + 3
    assert everything(log) == everything(log_on(cluster, leader % 3 + 1))


@pytest.mark.slow
def test_a_range_that_no_replica_can_repair_delays_no_other_one() -> None:
    cluster, leader = written()
    log = log_on(cluster, leader)
    for node in cluster.ids:
        rot(cluster, node)
    cluster.fetch(log.segments[1].base_offset, node=leader)
    cluster.run(2000)
    repairs = cluster.broker(leader).repairs
    assert len(repairs.describe()) == 1 and not repairs.mended
    second = log.segments[2]
    second.checked.trusted_from = second.size
    cluster.sim.nodes[leader].machine.disk.rot(second.path, 100)
    assert cluster.fetch(second.base_offset, node=leader).error_code
    cluster.until(lambda: repairs.mended == 1, 5000)
    assert cluster.values(cluster.fetch(second.base_offset, node=leader))
