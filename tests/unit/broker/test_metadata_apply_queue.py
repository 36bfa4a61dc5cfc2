"""Many new replicas: made a few per turn, and all of them followed whatever the pace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from barnabas.broker.replicas.metadata_apply_queue import Key, MetadataApplyQueue
from barnabas.limits import ReplicaBounds
from barnabas.metadata.image.image import TOPIC
from barnabas.metadata.image.topic import PartitionState
from barnabas.record.builder import build_batch
from barnabas.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.list_groups_request import ListGroupsRequest
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.schema import Message
from tests.unit.broker.world import Cluster

KNOWN_SLICE = ReplicaBounds().changed_per_turn
NEW_SLICE = ReplicaBounds().created_per_turn


def create(cluster: Cluster, partitions: int) -> None:
    topics = [
        CreatableTopic(name=f"t{i}", num_partitions=partitions, replication_factor=3)
        for i in range(3)
    ]
    answer = cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    assert not any(topic.error_code for topic in answer.topics)


def append_everywhere(cluster: Cluster) -> None:
    """One record to each partition that is led and empty."""
    now_ms = cluster.client.clock.wall_ms()
    for node in cluster.ids:
        for partition in list(cluster.broker(node).replicas.by_id.values()):
            if partition.leader is not None and partition.log and not partition.log.log_end_offset:
                partition.append(build_batch([(b"k", b"v")], timestamp_ms=now_ms), acks_all=True)


def lagging(cluster: Cluster) -> list[str]:
    return [
        f"{partition.name} on {follower.broker}"
        for node in cluster.ids
        for partition in cluster.broker(node).replicas.by_id.values()
        if partition.leader is not None and partition.log is not None
        for follower in partition.leader.followers.values()
        if follower.log_end_offset < partition.log.log_end_offset
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4])
def test_however_slowly_they_are_made_every_follower_catches_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that asked over two connections at once stayed behind for ever."""
    rng = Random(seed)

    def schedule(self: MetadataApplyQueue) -> None:
        if len(self) and not self._scheduled:
            self._scheduled = True
            later = self._ports.clock.now_ms() + rng.choice((1, 1, 2, 5, 30))
            self._ports.wakeups.call_at(later, self._apply_slice)

    monkeypatch.setattr(MetadataApplyQueue, "_schedule", schedule)
    cluster = Cluster(3, seed)
    create(cluster, 150)
    for _ in range(60):
        cluster.run(rng.choice((1, 5, 10, 20)))
        append_everywhere(cluster)
    cluster.until(lambda: not any(len(cluster.broker(n).replicas.apply_queue) for n in cluster.ids))
    append_everywhere(cluster)
    cluster.run(2_000)
    assert not lagging(cluster)


def line_of(cluster: Cluster, known: bool, seen: list[int]) -> MetadataApplyQueue:
    broker = cluster.broker()
    return MetadataApplyQueue(
        broker.ports,
        broker.image,
        broker.node_id,
        lambda key: known,
        lambda key: seen.append(key[1]),
        lambda: None,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("known", "slice_"), [(False, NEW_SLICE), (True, KNOWN_SLICE)])
def test_few_are_followed_at_once_and_many_in_slices(known: bool, slice_: int) -> None:
    cluster = Cluster(1)
    seen: list[int] = []
    line = line_of(cluster, known, seen)
    topics = [CreatableTopic(name="t", num_partitions=3 * slice_, replication_factor=1)]
    cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    cluster.until(lambda: "t" in cluster.broker().image.topics_by_name)
    topic_id = cluster.broker().image.topics_by_name["t"].id
    done: list[int] = []
    line.add([(topic_id, index) for index in range(slice_)])
    line.when_done(lambda: done.append(1))
    assert seen == list(range(slice_)) and done == [1]
    line.add([(topic_id, index) for index in range(3 * slice_)])
    line.when_done(lambda: done.append(2))
    assert len(line) == 3 * slice_ and len(seen) == slice_
    cluster.until(lambda: not len(line))
    assert seen[slice_:] == list(range(3 * slice_)) and done == [1, 2]
    line.add([(topic_id, index) for index in range(3 * slice_)])
    line.clear()
    cluster.run(10)
    assert len(seen) == 4 * slice_


class Counting(dict[Key, None]):
    """A line that counts how often it is looked through."""

    looked = 0

    def __iter__(self) -> Iterator[Key]:
        self.looked += 1
        return super().__iter__()


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 3 * KNOWN_SLICE])
def test_a_fault_at_one_leaves_the_others_their_turns(count: int) -> None:
    cluster, seen = Cluster(1), list[int]()
    cluster.create_topic("t", count)
    topic_id = cluster.broker().image.topics_by_name["t"].id
    line = line_of(cluster, True, seen)
    follow = line._follow

    def fail(key: Key) -> None:
        if key[1] == 2:
            raise RuntimeError("a fault of the program")
        follow(key)

    line._follow = fail
    faults = list[str]()

    def attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except RuntimeError as error:
            faults.append(str(error))

    attempt(lambda: line.add([(topic_id, index) for index in range(count)]))
    for _ in range(2):
        attempt(lambda: cluster.until(lambda: len(seen) == count - 1))
    assert (
        len(faults) == 1 and not len(line) and sorted(seen) == [i for i in range(count) if i != 2]
    )


def test_a_long_line_is_looked_through_once_per_turn() -> None:
    cluster = Cluster(1)
    seen: list[int] = []
    line = line_of(cluster, True, seen)
    line._gone = looks = Counting()
    topic_id = Uuid(bytes(15) + b"x")
    line.add([(topic_id, index) for index in range(5 * KNOWN_SLICE)])
    cluster.until(lambda: not len(line))
    assert seen == list(range(5 * KNOWN_SLICE)) and looks.looked <= 6


def test_few_changes_of_what_is_here_do_not_wait_behind_many_new_ones() -> None:
    cluster = Cluster(1)
    broker = cluster.broker()
    seen: list[int] = []
    line = MetadataApplyQueue(
        broker.ports,
        broker.image,
        broker.node_id,
        lambda key: key[1] < 5,
        lambda key: seen.append(key[1]),
        lambda: None,
    )
    topic_id = Uuid(bytes(15) + b"x")
    line.add([(topic_id, index) for index in range(100, 200)])
    line.add([(topic_id, index) for index in range(5)])
    assert seen == [0, 1, 2, 3, 4]
    cluster.until(lambda: not len(line))
    assert seen[5:] == list(range(100, 200))


@pytest.mark.slow
def test_thousands_of_deletions_are_followed_in_slices() -> None:
    cluster = Cluster(1)
    names = [f"d{i}" for i in range(4)]
    for name in names:
        topics = [CreatableTopic(name=name, num_partitions=KNOWN_SLICE // 2, replication_factor=1)]
        cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    replicas = cluster.broker().replicas
    cluster.until(lambda: len(replicas.by_id) >= 2 * KNOWN_SLICE)
    wanted = [DeleteTopicState(name=name) for name in names]
    cluster.ask(DeleteTopicsRequest(topics=wanted, timeout_ms=5000))
    cluster.until(lambda: not replicas.by_id)
    assert not replicas.by_name and not cluster.broker().logs.logs


@pytest.mark.slow
def test_a_replica_given_back_before_it_went_says_again_where_its_log_is() -> None:
    """The metadata forgot its directory. Were that not told, its failure would move no leadership."""
    cluster = Cluster(3, directories=2)
    cluster.create_topic("t", replication=1)
    keeps = cluster.leader("t")
    node, third = (n for n in cluster.ids if n != keeps)
    reassign(cluster, keeps, node)
    cluster.run(1_000)
    known = state(cluster).directory_of(node)
    home = cluster.broker(node).logs.directory_of(TopicPartition("t", 0))
    assert home is not None and known == home.directory_id
    waiting, held = cluster.broker(node).replicas.apply_queue, list[Key]()
    waiting.add, add = held.extend, waiting.add  # type: ignore[method-assign,assignment]
    reassign(cluster, keeps, third)
    reassign(cluster, keeps, node, done=False)
    assert state(cluster).directory_of(node) != known
    waiting.add = add  # type: ignore[method-assign]
    waiting.add(dict.fromkeys(held))
    cluster.broker(node).replicas.fetchers.maybe_fetch()
    cluster.until(lambda: state(cluster).directory_of(node) == known)
    cluster.until(lambda: set(state(cluster).isr) == {keeps, node})


@pytest.mark.slow
def test_fewer_members_are_enough_only_once_it_is_known_who_leads() -> None:
    """While the end of its term waited for its turn, a leader alone in its ISR committed by a lower
    min.insync.replicas what its successor, out of the ELR, had never had."""
    cluster = Cluster(3, replica_lag_time_max_ms="2000")
    cluster.create_topic("t", 6, 2, min_insync_replicas="2")
    nodes = cluster.sim.nodes
    at = next(n for n in cluster.ids if nodes[n] is cluster.sim.active_controller())
    topic = cluster.broker(at).image.topics_by_name["t"]
    index = next(i for i in range(6) if at not in topic.replicas[i])
    leader, follower = topic.leader[index], sum(topic.replicas[index]) - topic.leader[index]
    partition = cluster.partition(leader, "t", index)
    cluster.produce([b"a"], index=index)
    hosts = [nodes[node].machine.host for node in (leader, follower)]
    cluster.sim.network.cut(*hosts)
    cluster.sim.network.cut(*reversed(hosts))
    request = cluster.produce_request([b"b"], index=index, timeout_ms=60_000)
    request.topic_data[0].name = ""
    answer = cluster.ask_later(request, leader, 13)
    cluster.until(lambda: partition.leader is not None and partition.leader.isr == (leader,))
    line = cluster.broker(leader).replicas.apply_queue
    all_wait = lambda told: [line._line_of(key).setdefault(key) for key in told]  # noqa: E731
    line.add, add = all_wait, line.add  # type: ignore[method-assign,assignment]
    cluster.ask(UnregisterBrokerRequest(broker_id=leader), at)
    cluster.until(lambda: topic.leader[index] == follower)
    assert not cluster.ask(set_min_isr("1"), at).responses[0].error_code
    image = cluster.broker(leader).image
    cluster.until(lambda: image.config(TOPIC, "t")["min.insync.replicas"] == "1")
    cluster.run(10)
    assert partition.is_leader and partition.high_watermark == 1 and not answer.is_there
    line.add = add  # type: ignore[method-assign]
    line._schedule()
    cluster.until(lambda: answer.is_there)
    [told] = answer.value.responses[0].partition_responses
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_of_a_recreated_topic_are_not_lost_with_the_former_one() -> None:
    """Who names a topic means the present one, also while the end of the former one waits for its turn."""
    cluster = Cluster(1)
    cluster.create_topic("t")
    cluster.produce([b"old"])
    line = cluster.broker().replicas.apply_queue
    all_wait = lambda told: [line._line_of(key).setdefault(key) for key in told]  # noqa: E731
    line.add, add = all_wait, line.add  # type: ignore[method-assign,assignment]
    cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000))
    cluster.until(lambda: "t" not in cluster.broker().image.topics_by_name)
    cluster.create_topic("t")
    told = cluster.produce([b"early"], node=1, version=12)
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    line.add = add  # type: ignore[method-assign]
    line._schedule()
    cluster.until(lambda: not len(line))
    assert cluster.produce([b"new"], version=12).error_code == ErrorCode.NONE
    assert cluster.values(cluster.fetch()) == [b"new"]


def held_back(cluster: Cluster) -> Callable[[], None]:
    """Every replica waits for its turn, until what is given is called."""
    line = cluster.broker().replicas.apply_queue
    all_wait = lambda told: [line._line_of(key).setdefault(key) for key in told]  # noqa: E731
    line.add, add = all_wait, line.add  # type: ignore[method-assign,assignment]

    def release() -> None:
        line.add = add  # type: ignore[method-assign]
        line._schedule()
        cluster.until(lambda: not len(line))

    return release


def recreated(cluster: Cluster, name: str) -> None:
    cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000))
    cluster.until(lambda: name not in cluster.broker().image.topics_by_name)
    cluster.create_topic(name)


@pytest.mark.slow
def test_no_group_commits_by_a_former_topic_of_offsets() -> None:
    """It was acknowledged, and went with the former topic's replica when that had its turn."""
    cluster = Cluster(1)
    cluster.create_topic("t")
    cluster.create_topic(OFFSETS_TOPIC)
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[one])]

    def commit() -> int:
        answer = cluster.ask(OffsetCommitRequest(group_id="g", topics=topics), 1, 9)
        return int(answer.topics[0].partitions[0].error_code)

    cluster.until(lambda: commit() == ErrorCode.NONE)
    release = held_back(cluster)
    recreated(cluster, OFFSETS_TOPIC)
    assert commit() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    release()
    cluster.until(lambda: commit() == ErrorCode.NONE)


def test_a_coordinator_that_was_just_named_is_being_loaded() -> None:
    """A client that gets NOT_COORDINATOR asks who it is, gets the same answer, and may give up."""
    cluster = Cluster(1)
    release = held_back(cluster)
    for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        cluster.create_topic(name)
    found = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    assert cluster.ask(found).coordinators[0].node_id == 1
    join = JoinGroupRequest(
        group_id="g",
        protocol_type="consumer",
        session_timeout_ms=10_000,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000)
    requests: list[Message] = [join, init, ListGroupsRequest()]

    def codes() -> set[int]:
        return {cluster.ask(request, 1, 5).error_code for request in requests}

    assert codes() == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    release()
    loaded = {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}
    cluster.until(lambda: codes() == loaded)


def test_a_session_that_names_a_topic_reads_no_former_one() -> None:
    cluster = Cluster(1)
    cluster.create_topic("t")
    cluster.produce([b"old"])
    opened = cluster.ask(by_name(cluster.fetch_request(session=(0, 0))), 1, 12)
    assert cluster.values(opened.responses[0].partitions[0]) == [b"old"]
    release = held_back(cluster)
    recreated(cluster, "t")
    ask = by_name(cluster.fetch_request(session=(opened.session_id, 1)))
    [told] = cluster.ask(ask, 1, 12).responses[0].partitions
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    release()
    cluster.produce([b"new"])
    ask = by_name(cluster.fetch_request(session=(opened.session_id, 2)))
    [told] = cluster.ask(ask, 1, 12).responses[0].partitions
    assert cluster.values(told) == [b"new"]


def by_name(request: FetchRequest) -> FetchRequest:
    for topic in request.topics:
        topic.topic_id = Uuid(bytes(16))
    return request


def set_min_isr(least: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="min.insync.replicas", config_operation=0, value=least)
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


def state(cluster: Cluster) -> PartitionState:
    return cluster.broker().image.topics_by_name["t"].partition(0)


def reassign(cluster: Cluster, *replicas: int, done: bool = True) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topic = ReassignableTopic(name="t", partitions=[partition])
    answer = cluster.ask(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=5_000))
    assert not answer.error_code and not answer.responses[0].partitions[0].error_code
    cluster.until(lambda: replicas[-1] in state(cluster).replicas)
    if done:
        cluster.until(
            lambda: set(state(cluster).replicas) == set(replicas) == {*state(cluster).isr}
        )
