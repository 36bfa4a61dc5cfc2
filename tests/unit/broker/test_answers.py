"""What the broker answers of the cluster, of logs and of producers."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster_view import ClusterView
from barnabas.broker.controller_client.metadata_hold import ASKS_AGAIN_MS, SETTLED_MS
from barnabas.broker.coordinator.coordinators import java_string_hash
from barnabas.broker.handlers.find_coordinator import TRANSACTION
from barnabas.record.builder import build_batch
from barnabas.types import TRANSACTIONS_TOPIC, ZERO_UUID
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from barnabas.wire.messages.describe_producers_request import (
    DescribeProducersRequest,
)
from barnabas.wire.messages.describe_producers_request import (
    TopicRequest as ProducersTopic,
)
from barnabas.wire.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.broker.world import Cluster, code


@pytest.fixture(scope="module")
def three() -> Cluster:
    cluster = Cluster(3)
    for name in ("a", "b", "c"):
        cluster.create_topic(name, 3, 3)
    cluster.leader("c", 2)
    return cluster


class TestFindCoordinator:
    def find(
        self, cluster: Cluster, version: int, *keys: str, node: int = 1, kind: int = 0
    ) -> list[tuple[str, int]]:
        request = FindCoordinatorRequest(
            key_type=kind,
            key=keys[0] if version < 4 else "",
            coordinator_keys=keys if version >= 4 else (),
        )
        response = cluster.ask(request, node, version)
        if version < 4:
            return [(code(response.error_code), response.node_id)]
        return [(code(c.error_code), c.node_id) for c in response.coordinators]

    @pytest.mark.slow
    @pytest.mark.parametrize("version", [0, 1, 3, 4, 5, 6])
    def test_every_broker_names_the_leader_of_the_groups_partition(
        self, three: Cluster, version: int
    ) -> None:
        three.until(lambda: self.find(three, version, "g")[0][0] == "NONE")
        index = java_string_hash("g") % 2
        leader = three.leader("__consumer_offsets", index)
        for node in three.ids:
            assert self.find(three, version, "g", node=node) == [("NONE", leader)]

    def test_many_keys_and_a_group_without_a_name(self, three: Cluster) -> None:
        """Java's consumers before 2.2 commit in that group where they were given none."""
        three.until(lambda: self.find(three, 4, "g")[0][0] == "NONE")
        unnamed = three.leader("__consumer_offsets", 0)
        answers = self.find(three, 6, "g", "", "h")
        assert [a[0] for a in answers] == ["NONE"] * 3
        assert answers[1][1] == unnamed
        assert self.find(three, 0, "") == [("NONE", unnamed)]

    @pytest.mark.parametrize("version", [1, 3, 4, 6])
    def test_a_transactional_id_has_the_leader_of_its_partition(
        self, three: Cluster, version: int
    ) -> None:
        three.until(lambda: self.find(three, version, "x", kind=TRANSACTION)[0][0] == "NONE")
        count = len(three.broker().image.topics_by_name[TRANSACTIONS_TOPIC])
        leader = three.leader(TRANSACTIONS_TOPIC, java_string_hash("x") % count)
        for node in three.ids:
            found = self.find(three, version, "x", node=node, kind=TRANSACTION)
            assert found == [("NONE", leader)]

    @pytest.mark.parametrize("version", [1, 2, 3])
    def test_a_single_coordinator_comes_with_the_message_none(
        self, three: Cluster, version: int
    ) -> None:
        three.until(lambda: self.find(three, version, "g")[0][0] == "NONE")
        assert three.ask(FindCoordinatorRequest(key="g"), 1, version).error_message == "NONE"

    def test_unknown_kinds_are_refused(self, three: Cluster) -> None:
        request = FindCoordinatorRequest(key_type=9, coordinator_keys=["x"])
        answer = three.ask(request).coordinators[0]
        assert code(answer.error_code) == "INVALID_REQUEST"


def test_metadata_12_answers_by_the_id_where_a_topic_has_both() -> None:
    cluster = Cluster(1)
    first, second = cluster.create_topic("first"), cluster.create_topic("second")
    asked = [
        MetadataRequestTopic(name="first", topic_id=second),
        MetadataRequestTopic(name=None, topic_id=ZERO_UUID),
        MetadataRequestTopic(name="first", topic_id=ZERO_UUID),
    ]
    told = cluster.ask(MetadataRequest(topics=asked), 1, 12).topics
    assert [(code(t.error_code), t.name, t.topic_id) for t in told] == [
        ("NONE", "second", second),
        ("UNKNOWN_TOPIC_ID", None, ZERO_UUID),
        ("NONE", "first", first),
    ]


class TestDescribeTopicPartitions:
    def test_all_topics_page_by_page(self, three: Cluster) -> None:
        seen: list[tuple[str, int]] = []
        cursor: Cursor | None = None
        for _ in range(20):
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=n) for n in ("a", "b", "c")],
                response_partition_limit=2,
                cursor=cursor,
            )
            response = three.ask(request)
            for topic in response.topics:
                assert len(topic.partitions) <= 2
                seen += [(topic.name, p.partition_index) for p in topic.partitions]
            if response.next_cursor is None:
                break
            cursor = Cursor(
                topic_name=response.next_cursor.topic_name,
                partition_index=response.next_cursor.partition_index,
            )
        assert seen == [(name, index) for name in ("a", "b", "c") for index in range(3)]

    def test_a_page_that_is_full_at_a_topics_end_names_the_next_topic(self, three: Cluster) -> None:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=n) for n in ("a", "b")], response_partition_limit=3
        )
        response = three.ask(request)
        assert [(t.name, len(t.partitions)) for t in response.topics] == [("a", 3)]
        cursor = response.next_cursor
        assert (cursor.topic_name, cursor.partition_index) == ("b", 0)

    def test_a_cursor_names_a_topic_that_is_asked_for(self, three: Cluster) -> None:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="b")], cursor=Cursor(topic_name="a", partition_index=0)
        )
        assert [code(t.error_code) for t in three.ask(request).topics] == ["INVALID_REQUEST"]

    def test_topics_that_do_not_exist(self, three: Cluster) -> None:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="none"), TopicRequest(name="in/valid")]
        )
        codes = [code(t.error_code) for t in three.ask(request).topics]
        assert codes == ["INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_cluster(three: Cluster, version: int) -> None:
    response = three.ask(DescribeClusterRequest(), 2, version)
    assert [b.broker_id for b in response.brokers] == [1, 2, 3]
    if version >= 1:
        other = three.ask(DescribeClusterRequest(endpoint_type=2), 2, version)
        assert code(other.error_code) == "MISMATCHED_ENDPOINT_TYPE"


def test_each_broker_names_itself_as_the_controller(three: Cluster) -> None:
    for node in three.ids:
        assert three.ask(DescribeClusterRequest(), node).controller_id == node
        assert three.ask(MetadataRequest(topics=[]), node).controller_id == node


def test_a_broker_that_leaves_or_is_fenced_names_a_live_one_as_controller(three: Cluster) -> None:
    broker = three.broker(1)
    view = ClusterView(broker.image, "PLAINTEXT")
    assert broker.controller_for_clients(view) == 1
    broker._stopping = True
    try:
        assert broker.controller_for_clients(view) == 2
        broker.metadata_hold.on_lost(2)
        assert broker.controller_for_clients(view) == 3
        broker.metadata_hold.on_lost(3)
        assert broker.controller_for_clients(view) == 1
        assert broker.controller_for_clients(ClusterView(broker.image, "NONE")) == -1
    finally:
        broker._stopping = False
        broker.metadata_hold.on_reached(2)
        broker.metadata_hold.on_reached(3)


@pytest.mark.slow
def test_a_lost_coordinator_is_named_only_when_its_successor_is_known() -> None:
    cluster = Cluster(3, offsets_topic_num_partitions="1")
    cluster.create_topic("t", 1, 3)
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    cluster.until(lambda: cluster.ask(find, 1).coordinators[0].node_id > 0)
    dead = cluster.ask(find, 1).coordinators[0].node_id
    others = [n for n in cluster.ids if n != dead]
    cluster.run(2 * SETTLED_MS)
    cluster.sim.nodes[dead].kill()
    answers = [cluster.ask_later(find, node, purpose="more") for node in others]
    answers += [cluster.ask_later(find, node) for node in others]
    cluster.until(lambda: all(answer.is_there for answer in answers))
    named = {answer.value.coordinators[0].node_id for answer in answers}
    assert len(named) == 1 and named < set(others)


@pytest.mark.slow
def test_a_client_of_some_milliseconds_is_named_no_dead_coordinator() -> None:
    cluster = Cluster(3, offsets_topic_num_partitions="1")
    cluster.create_topic("t", 1, 3)
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    cluster.until(lambda: cluster.ask(find, 1).coordinators[0].node_id > 0)
    dead = cluster.ask(find, 1).coordinators[0].node_id
    others = [n for n in cluster.ids if n != dead]
    connected = [
        cluster.ask_later(MetadataRequest(topics=[]), node, purpose="young") for node in others
    ]
    cluster.until(lambda: all(answer.is_there for answer in connected))
    cluster.run(2 * ASKS_AGAIN_MS)
    # Its clients hear of its death before other brokers do.
    answers = [cluster.ask_later(find, node, purpose="young") for node in others]
    cluster.sim.nodes[dead].kill()
    cluster.until(lambda: all(answer.is_there for answer in answers))
    named = {answer.value.coordinators[0].node_id for answer in answers}
    assert len(named) == 1 and named < set(others)


def test_a_lost_leader_is_no_hint_for_who_asks_the_wrong_broker(three: Cluster) -> None:
    leader = three.leader("c", 2)
    wrong = next(n for n in three.ids if n != leader)
    lost = three.broker(wrong).metadata_hold
    request = three.produce_request([b"a"], topic="c", index=2)
    for is_lost, named in ((False, leader), (True, -1)):
        if is_lost:
            lost.on_lost(leader)
        answer = three.ask(request, wrong, 13).responses[0].partition_responses[0]
        assert code(answer.error_code) == "NOT_LEADER_OR_FOLLOWER"
        assert answer.current_leader.leader_id == named
    lost.on_reached(leader)


def test_administration_goes_through_any_broker(three: Cluster) -> None:
    for node in three.ids:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=f"via-{node}", num_partitions=1, replication_factor=1)],
            timeout_ms=5000,
        )
        first = three.ask(request, node).topics[0]
        assert code(first.error_code) == "NONE"
        again = three.ask(request, node).topics[0]
        assert code(again.error_code) == "TOPIC_ALREADY_EXISTS"


def test_configurations_by_any_broker(three: Cluster) -> None:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=2, resource_name="a", configuration_keys=None)
        ]
    )
    for node in three.ids:
        found = {c.name: c.value for c in three.ask(request, node).results[0].configs}
        assert found["min.insync.replicas"] == "2"


def test_sizes_in_log_directories(three: Cluster) -> None:
    three.produce([b"x" * 1000], topic="a", index=1)
    leader = three.leader("a", 1)
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="a", partitions=[1])])
    (result,) = three.ask(request, leader).results
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in result.topics] == [
        ("a", [1])
    ]
    assert result.topics[0].partitions[0].partition_size > 1000
    assert result.total_bytes > 0


def test_a_batch_of_a_transaction_that_could_not_end_is_refused(three: Cluster) -> None:
    batch = build_batch(
        [(b"k", b"v")], timestamp_ms=three.client.clock.wall_ms(), producer_id=1,
        producer_epoch=0, base_sequence=0, transactional=True,
    )  # fmt: skip
    refused = code(three.produce([], topic="b", batch=batch).error_code)
    assert refused == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    log = three.partition(three.leader("b"), "b").log
    assert log is not None and log.last_stable_offset == log.log_end_offset


def test_producers_of_a_partition(three: Cluster) -> None:
    given = three.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
    assert (given.error_code, given.producer_epoch) == (0, 0)
    other = three.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 2)
    assert other.producer_id != given.producer_id
    batch = build_batch(
        [(b"k", b"v")], timestamp_ms=three.client.clock.wall_ms(), producer_id=given.producer_id,
        producer_epoch=0, base_sequence=0,
    )  # fmt: skip
    assert three.produce([], topic="b", batch=batch).error_code == 0
    request = DescribeProducersRequest(topics=[ProducersTopic(name="b", partition_indexes=[0, 7])])
    known, unknown = three.ask(request, three.leader("b")).topics[0].partitions
    assert [(p.producer_id, p.last_sequence) for p in known.active_producers] == [
        (given.producer_id, 0)
    ]
    assert code(unknown.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_ends_of_leader_epochs(three: Cluster, version: int) -> None:
    leader = three.leader("c")
    end = three.produce([b"1", b"2"], topic="c").base_offset + 2

    def ask(epoch: int, current: int = -1, node: int = leader) -> tuple[str, int, int]:
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic="c",
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=0, leader_epoch=epoch, current_leader_epoch=current
                        )
                    ],
                )
            ],
        )
        found = three.ask(request, node, version).topics[0].partitions[0]
        return code(found.error_code), found.leader_epoch, found.end_offset

    assert ask(0) == ("NONE", 0, end)
    assert ask(5) == ("NONE", -1, -1)
    assert ask(0, current=7)[0] == "UNKNOWN_LEADER_EPOCH"
    other = next(n for n in three.ids if n != leader)
    assert ask(0, node=other)[0] == "NOT_LEADER_OR_FOLLOWER"


def test_a_topic_made_for_a_client_is_as_this_brokers_properties_say() -> None:
    """A controller of its own may have others."""

    def asked(cluster: Cluster) -> tuple[int, int]:
        topic = cluster.broker().auto_topics._topic("t")
        return topic.num_partitions, topic.replication_factor

    assert asked(Cluster(1)) == (-1, 1)  # the simulator's nodes say how many replicas
    assert asked(Cluster(1, num_partitions="3", default_replication_factor="2")) == (3, 2)
