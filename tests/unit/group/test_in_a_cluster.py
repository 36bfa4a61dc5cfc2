"""Coordinators on real replicas: nodes in a simulated world, killed and cut off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.client.network.connection import ChannelError
from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compactor import LocalCompactor
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.metadata.image.image import TOPIC
from barnabas.types import OFFSETS_TOPIC, Buffer, TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.unit.broker.world import Answer, Cluster

GROUPS = ("g", "analytics", "my-group", "polygenelubricants", "connect-cluster", "grüße")
"""Hashes below, at and above zero, and the one that has no opposite."""


@pytest.fixture
def three() -> Cluster:
    cluster = Cluster(3, offsets_topic_num_partitions="4", offsets_topic_replication_factor="3")
    cluster.create_topic("t", 3, 3)
    return cluster


def coordinator(cluster: Cluster, group: str, ask: int | None = None) -> int:
    """Who coordinates `group`, as a broker says, once it coordinates indeed."""
    found: list[int] = []

    def known() -> bool:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        try:
            [answer] = cluster.ask(request, ask or cluster.ids[0]).coordinators
        except ChannelError:
            return False
        node = answer.node_id
        if answer.error_code or node not in cluster.ids:
            return False
        groups = cluster.broker(node).groups
        shard = groups._shards.get(groups.partition_for(group))
        found[:] = [node]
        return shard is not None and shard.active

    cluster.until(known)
    return found[0]


def commit_request(group: str, offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[part])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def code_of(answer: Answer) -> ErrorCode:
    return ErrorCode(answer.value.topics[0].partitions[0].error_code)


def commit(cluster: Cluster, node: int, group: str, offset: int) -> ErrorCode:
    answer = cluster.ask_later(commit_request(group, offset), node, 9)
    cluster.until(lambda: answer.is_there)
    return code_of(answer)


def fetch(cluster: Cluster, node: int, group: str) -> tuple[ErrorCode, int]:
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    [answer] = cluster.ask(OffsetFetchRequest(groups=[asked]), node, 9).groups
    offsets = [p.committed_offset for topic in answer.topics for p in topic.partitions]
    return ErrorCode(answer.error_code), offsets[0] if offsets else -1


def cut_off(cluster: Cluster, node: int) -> Callable[[], None]:
    """Only the client reaches `node`; returns what ends that."""
    others = [f"n{other}" for other in cluster.ids if other != node]
    for other in others:
        cluster.sim.network.cut(f"n{node}", other)
        cluster.sim.network.cut(other, f"n{node}")

    def heal() -> None:
        for other in others:
            cluster.sim.network.heal(f"n{node}", other)
            cluster.sim.network.heal(other, f"n{node}")

    return heal


@pytest.mark.slow
def test_the_broker_that_is_named_is_the_one_that_answers(three: Cluster) -> None:
    for number, group in enumerate(GROUPS):
        node = coordinator(three, group)
        assert commit(three, node, group, number + 1) is ErrorCode.NONE
        assert fetch(three, node, group) == (ErrorCode.NONE, number + 1)
        for other in three.ids:
            if other != node:
                assert commit(three, other, group, 99) is ErrorCode.NOT_COORDINATOR


@pytest.mark.slow
def test_offsets_survive_the_death_of_their_coordinator(three: Cluster) -> None:
    old = coordinator(three, "g")
    assert commit(three, old, "g", 17) is ErrorCode.NONE
    three.sim.nodes[old].kill()
    new = coordinator(three, "g", next(n for n in three.ids if n != old))
    assert new != old
    assert fetch(three, new, "g") == (ErrorCode.NONE, 17)
    assert commit(three, new, "g", 18) is ErrorCode.NONE


@pytest.mark.slow
def test_offsets_survive_the_death_of_all(three: Cluster) -> None:
    assert commit(three, coordinator(three, "g"), "g", 17) is ErrorCode.NONE
    nodes = list(three.ids)
    for node in nodes:
        three.sim.nodes[node].kill()
    for node in nodes:
        three.sim.nodes[node].start()
    three.until(lambda: len(three.ids) == 3)
    three.run(3_000)
    assert fetch(three, coordinator(three, "g"), "g") == (ErrorCode.NONE, 17)


@pytest.mark.slow
def test_a_commit_waits_for_the_replicas_and_is_not_read_before(three: Cluster) -> None:
    node = coordinator(three, "g")
    assert commit(three, node, "g", 1) is ErrorCode.NONE
    index = three.broker(node).groups.partition_for("g")
    held = [n for n in three.ids if n != node]
    for other in held:
        three.sim.network.cut(f"n{node}", f"n{other}")
    answer = three.ask_later(commit_request("g", 2), node, 9)
    three.run(100)
    assert not answer.is_there
    assert fetch(three, node, "g") == (ErrorCode.NONE, 1)
    log = three.partition(node, OFFSETS_TOPIC, index).log
    assert log is not None and log.high_watermark < log.log_end_offset
    for other in held:
        three.sim.network.heal(f"n{node}", f"n{other}")
    three.until(lambda: answer.is_there)


@pytest.mark.slow
def test_a_coordinator_that_was_cut_off_acknowledges_nothing(three: Cluster) -> None:
    old = coordinator(three, "g")
    assert commit(three, old, "g", 1) is ErrorCode.NONE
    heal = cut_off(three, old)
    lost = three.ask_later(commit_request("g", 100), old, 9)
    witness = next(n for n in three.ids if n != old)
    three.until(lambda: coordinator(three, "g", witness) != old)
    new = coordinator(three, "g", witness)
    assert commit(three, new, "g", 2) is ErrorCode.NONE
    three.until(lambda: lost.is_there)
    assert isinstance(lost.value, ChannelError) or code_of(lost) is not ErrorCode.NONE
    heal()
    three.until(lambda: commit(three, old, "g", 100) is ErrorCode.NOT_COORDINATOR)
    assert fetch(three, coordinator(three, "g"), "g") == (ErrorCode.NONE, 2)


@pytest.mark.slow
def test_a_failed_directory_ends_the_coordinators_in_it() -> None:
    cluster = Cluster(3, log_dirs="/data,/second", offsets_topic_num_partitions="8")
    cluster.create_topic("t", 1, 3)

    def in_second(group: str) -> bool:
        broker = cluster.broker(coordinator(cluster, group))
        place = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(group))
        directory = broker.logs.directory_of(place)
        return directory is not None and directory.path == "/second"

    group = next(f"g{n}" for n in range(40) if in_second(f"g{n}"))
    node = coordinator(cluster, group)
    broker = cluster.broker(node)
    assert commit(cluster, node, group, 1) is ErrorCode.NONE
    place = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(group))
    broker.logs.fail_log(place, OSError(28, "No space left on device"))
    assert commit(cluster, node, group, 2) is ErrorCode.NOT_COORDINATOR
    cluster.until(lambda: coordinator(cluster, group) != node)
    assert fetch(cluster, coordinator(cluster, group), group) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize(("min_isr", "own"), [("0", None), ("2", "2")])
def test_the_offsets_topic_has_the_min_isr_that_is_asked_for(min_isr: str, own: str | None) -> None:
    cluster = Cluster(
        3,
        offsets_topic_num_partitions="1",
        offsets_topic_replication_factor="3",
        offsets_topic_min_isr=min_isr,
    )
    node = coordinator(cluster, "g")
    configs = cluster.broker(node).image.config(TOPIC, OFFSETS_TOPIC)
    assert configs.get("min.insync.replicas") == own


def test_a_log_that_is_compacted_while_it_is_loaded_from_disk_is_loaded() -> None:
    """After a reboot nothing is in memory, and the cleaner is at work as well."""
    cluster = Cluster(1, offsets_topic_num_partitions="1", log_cleaner_backoff_ms="3600000")
    cluster.create_topic("t")
    coordinator(cluster, "g")
    for offset in range(1, 40):
        assert commit(cluster, 1, "g", offset) is ErrorCode.NONE
        if offset % 10 == 0:
            log_on(cluster, 1).roll()
    node, done = cluster.sim.nodes[1], list[bool]()
    node.shut_down(lambda: done.append(True))
    cluster.until(lambda: done)
    node.machine.disk.cold_read_rate = 1.0
    node.start()
    cluster.until(lambda: (OFFSETS_TOPIC, 0) in cluster.broker().replicas.by_name)
    log, swapped = log_on(cluster, 1), list[int]()
    order = log.read_job

    def read_job(offset: int, max_bytes: int) -> Callable[[], Buffer]:
        job = order(offset, max_bytes)
        if offset >= log.bases[1] and not swapped:
            swapped.append(len(log.segments))
            compact(log)
        return job

    log.read_job = read_job  # type: ignore[method-assign,assignment]
    cluster.until(lambda: swapped)
    assert len(log.segments) < swapped[0]
    coordinator(cluster, "g")
    assert fetch(cluster, 1, "g") == (ErrorCode.NONE, 39)
    assert commit(cluster, 1, "g", 40) is ErrorCode.NONE


def log_on(cluster: Cluster, node: int) -> PartitionLog:
    log = cluster.partition(node, OFFSETS_TOPIC).log
    assert log is not None
    return log


def compact(log: PartitionLog) -> None:
    """One round of the cleaner."""
    plan, compactor = cleaning_pass.make_plan(log, 0, 0), LocalCompactor()
    for group in cleaning_pass.groups_of(plan, compactor.begin(plan, 1 << 20)):
        assert cleaning_pass.swap(log, plan, compactor.clean(group))


@pytest.mark.slow
@pytest.mark.parametrize("cold", [False, True])
def test_a_batch_that_rotted_is_mended_and_then_loaded(cold: bool) -> None:
    cluster = Cluster(3, offsets_topic_num_partitions="1", offsets_topic_replication_factor="3")
    cluster.create_topic("t", replication=3)
    old = coordinator(cluster, "g")
    for offset in range(1, 30):
        assert commit(cluster, old, "g", offset) is ErrorCode.NONE
    replicas = cluster.broker(old).image.topics_by_name[OFFSETS_TOPIC].partition(0).replicas
    heir = next(n for n in replicas if n != old)
    log = log_on(cluster, heir)
    cluster.until(lambda: log.high_watermark >= 29)
    log.active.checked.trusted_from = (
        log.active.size
    )  # as after a restart: an earlier life wrote it
    disk = cluster.sim.nodes[heir].machine.disk
    disk.rot(log.active.path, 100)
    disk.cold_read_rate = float(cold)
    cluster.sim.nodes[old].kill()
    cluster.until(lambda: cluster.partition(heir, OFFSETS_TOPIC).is_leader)
    assert coordinator(cluster, "g", heir) == heir
    assert cluster.broker(heir).repairs.mended == 1
    assert fetch(cluster, heir, "g") == (ErrorCode.NONE, 29)
    assert commit(cluster, heir, "g", 30) is ErrorCode.NONE
