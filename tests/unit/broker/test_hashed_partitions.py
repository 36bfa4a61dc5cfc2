"""Coordinators' topics that have grown all the same: names stay where their state is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.broker.handlers.find_coordinator import GROUP, TRANSACTION
from barnabas.controller.topics import create_partitions
from barnabas.log.checkpoints import COORDINATOR_PARTITIONS
from barnabas.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest
from barnabas.wire.messages.delete_topics_request import DeleteTopicState as Deleted
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.broker.world import Cluster, code

NAMES = [f"g{number}" for number in range(12)]
OFFSETS = 8


def coordinators(cluster: Cluster, kind: int, node: int) -> list[int]:
    """Who coordinates each of `NAMES`, by what one node says."""

    def found() -> list[int]:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=NAMES)
        answer = cluster.ask(request, node).coordinators
        return [] if any(one.error_code for one in answer) else [one.node_id for one in answer]

    cluster.until(found)
    return found()


def commit(cluster: Cluster, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    for name, node in zip(NAMES, coordinators(cluster, GROUP, 1), strict=True):
        request = OffsetCommitRequest(group_id=name, topics=topics)

        def done(request: OffsetCommitRequest = request, node: int = node) -> bool:
            answer = cluster.ask(request, node, OFFSETS)
            return bool(answer.topics[0].partitions[0].error_code == 0)

        cluster.until(done)


def committed(cluster: Cluster) -> list[int]:
    """The offset of each of `NAMES`, asked of whom the last node names."""
    found = []
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    nodes = coordinators(cluster, GROUP, cluster.ids[-1])
    for name, node in zip(NAMES, nodes, strict=True):
        group = OffsetFetchRequestGroup(group_id=name, topics=[topic])
        request = OffsetFetchRequest(groups=[group])

        def answer(request: OffsetFetchRequest = request, node: int = node) -> int | None:
            (group,) = cluster.ask(request, node, OFFSETS).groups
            return None if group.error_code else group.topics[0].partitions[0].committed_offset

        cluster.until(lambda ask=answer: ask() is not None)  # type: ignore[misc]
        found.append(answer() or 0)
    return found


def grow(cluster: Cluster, topic: str, count: int) -> str:
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    (result,) = cluster.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000)).results
    if result.error_code == 0:
        cluster.until(lambda: all(partitions(cluster, topic, n) == count for n in cluster.ids))
    return code(result.error_code)


def partitions(cluster: Cluster, topic: str, node: int) -> int:
    return len(cluster.broker(node).image.topics_by_name.get(topic, ()))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(3)
    cluster.create_topic("t")
    commit(cluster, 7)
    coordinators(cluster, TRANSACTION, 1)
    return cluster


@pytest.fixture
def grows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster], None]:
    """As a controller of Apache Kafka lets them."""

    def both(cluster: Cluster) -> None:
        with monkeypatch.context() as controller:
            controller.setattr(create_partitions, "COORDINATOR_TOPICS", ())
            assert grow(cluster, OFFSETS_TOPIC, 7) == "NONE"
            assert grow(cluster, TRANSACTIONS_TOPIC, 7) == "NONE"

    return both


def restart(cluster: Cluster, node: int) -> None:
    """Without a wait for whole ISRs: a broker that leads next may have an old high watermark."""
    cluster.sim.nodes[node].kill()
    cluster.sim.nodes[node].start()
    cluster.until(lambda: cluster.broker(node).lifecycle.phase.value == "running")


@pytest.mark.slow
def test_the_controller_refuses_to_grow_them(cluster: Cluster) -> None:
    assert grow(cluster, OFFSETS_TOPIC, 7) == "INVALID_PARTITIONS"
    assert grow(cluster, TRANSACTIONS_TOPIC, 7) == "INVALID_PARTITIONS"
    assert grow(cluster, "t", 7) == "NONE"
    assert committed(cluster) == [7] * len(NAMES)


@pytest.mark.slow
def test_groups_keep_their_offsets_where_the_topic_grows(
    cluster: Cluster, grows: Callable[[Cluster], None]
) -> None:
    before = {node: coordinators(cluster, TRANSACTION, node) for node in cluster.ids}
    grows(cluster)
    assert committed(cluster) == [7] * len(NAMES)
    assert {node: coordinators(cluster, TRANSACTION, node) for node in cluster.ids} == before
    commit(cluster, 8)
    for node in cluster.ids:
        restart(cluster, node)
    assert committed(cluster) == [8] * len(NAMES)
    for node in cluster.ids:
        assert cluster.broker(node).hashed.of(OFFSETS_TOPIC) == 2
        assert cluster.broker(node).hashed.of(TRANSACTIONS_TOPIC) == 2
        # The file that keeps the numbers is the broker's own.
        assert cluster.broker(node).logs.directories[0].foreign == []


@pytest.mark.slow
def test_a_second_producer_fences_the_first_where_the_topic_has_grown(
    cluster: Cluster, grows: Callable[[Cluster], None]
) -> None:
    def producers() -> list[tuple[int, int]]:
        found = []
        for name, node in zip(NAMES, coordinators(cluster, TRANSACTION, 2), strict=True):
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=9_000)
            answers = [cluster.ask(request, node)]
            while answers[-1].error_code:
                answers.append(cluster.ask(request, node))
            found.append((answers[-1].producer_id, answers[-1].producer_epoch))
        return found

    before = producers()
    grows(cluster)
    assert producers() == [(producer, epoch + 1) for producer, epoch in before]


@pytest.mark.slow
def test_a_topic_that_is_created_again_has_its_own_number(
    cluster: Cluster, grows: Callable[[Cluster], None]
) -> None:
    grows(cluster)
    cluster.ask(DeleteTopicsRequest(topics=[Deleted(name=OFFSETS_TOPIC)], timeout_ms=10_000))
    cluster.until(lambda: all(not partitions(cluster, OFFSETS_TOPIC, n) for n in cluster.ids))
    cluster.create_topic(OFFSETS_TOPIC, 5, 3)
    commit(cluster, 9)
    assert {cluster.broker(node).hashed.of(OFFSETS_TOPIC) for node in cluster.ids} == {5}
    for node in cluster.ids:
        restart(cluster, node)
    assert committed(cluster) == [9] * len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [b"", b"\x00" * 40, b"0\n1\n__consumer_offsets x 2\n", b"\xff\xfe"]
)
def test_a_damaged_file_is_passed_over_and_written_again(cluster: Cluster, damage: bytes) -> None:
    directory = cluster.broker(1).logs.directories[0]
    path = f"{directory.path}/{COORDINATOR_PARTITIONS}"
    whole = directory.disk.read_file(path)
    directory.disk.write_atomic(path, damage)
    restart(cluster, 1)
    disk = cluster.broker(1).logs.directories[0].disk
    cluster.until(lambda: disk.read_file(path) == whole)
    assert committed(cluster) == [7] * len(NAMES)
