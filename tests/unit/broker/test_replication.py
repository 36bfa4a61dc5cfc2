"""Three simulated nodes: high watermark, min ISR, leaders that die, disks that fail, clean ends."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from barnabas.broker.handlers import fetch, produce
from barnabas.metadata.image.registrations import ListenerEndpoint
from barnabas.record.batch import MAGIC_AT
from barnabas.record.builder import build_batch
from barnabas.types import DEBUGGING_REPLICA
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.wire.messages.fetch_request import ReplicaState
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.request import RequestContext
from tests.unit.broker.world import Cluster, code, values_of


@pytest.fixture
def three() -> Cluster:
    cluster = Cluster(3)
    cluster.create_topic("t", 1, 3, min_insync_replicas="2")
    return cluster


def followers(cluster: Cluster, topic: str = "t") -> list[int]:
    leader = cluster.leader(topic)
    return [node for node in cluster.ids if node != leader]


def isr(cluster: Cluster, topic: str = "t") -> tuple[int, ...]:
    state = cluster.partition(cluster.leader(topic), topic).leader
    assert state is not None
    return state.isr


def test_acks_all_is_answered_when_every_member_has_it(three: Cluster) -> None:
    answer = three.produce([b"a", b"b"])
    assert (answer.error_code, answer.base_offset) == (0, 0)
    for node in three.ids:
        log = three.partition(node).log
        assert log is not None and log.log_end_offset == 2


@pytest.mark.slow
def test_an_epoch_without_a_leader_is_truncated_and_fetched_again(three: Cluster) -> None:
    """The last batch's, after a crash: the leader does not know the epoch and cannot say where it ended
    (seed 101852)."""
    dead = followers(three)[0]
    for value in (b"a", b"b"):
        three.produce([value])
    log = three.partition(dead).log
    assert log is not None and log.log_end_offset == 2
    path, second = log.active.path, log.active.size // 2
    three.sim.nodes[dead].kill()
    three.sim.nodes[dead].machine.disk.rot(path, second + MAGIC_AT - 3, 3)
    three.until(lambda: dead not in isr(three))
    three.sim.nodes[dead].start()
    three.until(lambda: len(isr(three)) == 3)
    log = three.partition(dead).log
    assert log is not None
    assert (log.log_end_offset, log.last_epoch) == (2, 0)


def test_a_leader_that_wrote_nothing_knows_its_epoch_after_a_kill(three: Cluster) -> None:
    """What it committed would stand behind what lost in an epoch before (seeds 611060, 640647)."""
    three.produce([b"a"])
    first = three.leader("t")
    three.sim.nodes[first].kill()
    three.until(lambda: three.leader("t") not in (-1, first))
    node = three.leader("t")
    three.until(lambda: three.partition(node).is_leader)
    epoch = three.partition(node).leader_epoch
    three.sim.nodes[node].kill()
    three.sim.nodes[node].start()
    three.until(lambda: ("t", 0) in three.broker(node).replicas.by_name)
    log = three.partition(node).log
    assert log is not None
    assert log.epochs.entries()[:2] == [(0, 0), (epoch, 1)]


def test_a_dead_follower_leaves_and_comes_back(three: Cluster) -> None:
    dead = followers(three)[0]
    three.sim.nodes[dead].kill()
    assert three.produce([b"a"]).error_code == 0
    assert dead not in isr(three)
    three.sim.nodes[dead].start()
    three.until(lambda: len(isr(three)) == 3)
    log = three.partition(dead).log
    assert log is not None and log.log_end_offset == 1


def test_a_broker_that_registers_again_joins_the_isr_without_new_records(
    three: Cluster,
) -> None:
    """Its fetch sessions continue, and name no partition in which nothing happens (seed 100)."""
    who = followers(three)[0]
    epoch = three.broker(who).lifecycle.broker_epoch
    assert three.ask(UnregisterBrokerRequest(broker_id=who)).error_code == 0
    three.until(lambda: who not in isr(three))
    three.until(lambda: who in isr(three))
    assert three.broker(who).lifecycle.broker_epoch > epoch


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])
def test_a_fetch_without_a_registration_does_not_count_for_the_next_epoch(
    seed: int,
) -> None:
    """Its fetches said no broker epoch then: with its log lost it was in sync before it fetched again."""
    cluster = Cluster(3, seed)
    cluster.create_topic("t", 1, 3, min_insync_replicas="1")
    leader = cluster.leader("t")
    controller = next(
        n for n in cluster.ids if cluster.sim.nodes[n] is cluster.sim.active_controller()
    )
    who = next(n for n in cluster.ids if n not in (leader, controller))
    cluster.produce([b"a"])
    state = cluster.partition(leader).leader
    assert state is not None
    fetches = state.followers[who]
    cluster.ask(UnregisterBrokerRequest(broker_id=who), controller)
    cluster.until(lambda: cluster.broker(who).lifecycle.broker_epoch == -1)
    cluster.produce([b"b"], node=leader, acks=1)
    cluster.until(lambda: fetches.log_end_offset == 2)
    hosts = [cluster.sim.nodes[node].machine.host for node in (who, leader)]
    cluster.sim.network.cut(*hosts)
    cluster.sim.network.cut(*reversed(hosts))
    cluster.sim.nodes[who].kill(power_loss=True)
    cluster.sim.nodes[who].start()
    cluster.until(lambda: cluster.broker(who).lifecycle.phase.value == "running")
    cluster.run(2_000)
    assert who not in isr(cluster)
    cluster.sim.network.heal()
    cluster.until(lambda: who in isr(cluster))
    log = cluster.partition(who).log
    assert log is not None and log.log_end_offset == 2


def test_below_min_isr_nothing_is_accepted_nor_committed(three: Cluster) -> None:
    three.produce([b"a"])
    leader = three.leader("t")
    first, second = followers(three)
    # Netsplits rather than deaths: the quorum has to continue.
    three.sim.nodes[first].kill()
    three.until(lambda: len(isr(three)) == 2)
    partition = three.partition(leader)
    assert partition.leader is not None
    partition.min_isr = 3
    refused = three.produce([b"b"])
    assert code(refused.error_code) == "NOT_ENOUGH_REPLICAS"
    one = three.produce([b"c"], acks=1)
    assert one.error_code == 0
    three.run(1500)
    assert partition.high_watermark == 1, "what acks=1 wrote is not committed"
    assert values_of(three.fetch()) == [b"a"]
    debugging = three.fetch_request()
    debugging.replica_id = DEBUGGING_REPLICA
    seen = three.ask(debugging, leader, 12).responses[0].partitions[0]
    assert values_of(seen) == [b"a", b"c"], "who debugs a replica sees all of it, in any version"
    three.sim.nodes[first].start()
    three.until(lambda: partition.high_watermark == 2)
    assert second in isr(three)


def test_a_produce_that_cannot_be_replicated_in_time(three: Cluster) -> None:
    leader = three.leader("t")
    for node in followers(three):
        three.sim.network.cut(f"n{leader}", f"n{node}")
    began = three.world.now_ms
    answer = three.produce([b"a"], node=leader, timeout_ms=700)
    assert code(answer.error_code) == "REQUEST_TIMED_OUT"
    assert 700 <= three.world.now_ms - began < 800


def test_a_new_leader_continues_and_the_old_one_follows_it(three: Cluster) -> None:
    three.produce([b"a"])
    old = three.leader("t")
    three.sim.nodes[old].kill()
    three.until(lambda: three.leader("t") != old)
    assert three.produce([b"b"]).base_offset == 1
    three.sim.nodes[old].start()
    three.until(lambda: len(isr(three)) == 3)
    assert three.produce([b"c"]).error_code == 0
    new = three.partition(three.leader("t")).log
    returned = three.partition(old).log
    assert new is not None and returned is not None
    assert returned.log_end_offset == new.log_end_offset == 3
    assert returned.epochs.entries() == new.epochs.entries()


def sequenced(cluster: Cluster, sequence: int) -> bytes:
    """A batch of one record of an idempotent producer."""
    return build_batch(
        [(b"k", b"%d" % sequence)],
        timestamp_ms=cluster.client.clock.wall_ms(),
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
    )


def test_batches_behind_a_refused_one_get_its_answer_and_come_again(three: Cluster) -> None:
    """librdkafka begins a new epoch for OUT_OF_ORDER_SEQUENCE_NUMBER, and writes again what it had sent."""
    assert three.produce([], batch=sequenced(three, 0)).error_code == 0
    old, others = three.leader("t"), followers(three)
    three.sim.nodes[old].kill()
    while not any(three.partition(node).is_leader for node in others):
        for node in others:
            early = three.produce([], batch=sequenced(three, 2), node=node)
            assert code(early.error_code) == "NOT_LEADER_OR_FOLLOWER"
    behind = three.produce([], batch=sequenced(three, 2))
    assert code(behind.error_code) == "NOT_LEADER_OR_FOLLOWER"
    assert "a batch before it was refused" in str(behind.error_message)
    for sequence, offset in ((0, 0), (1, 1), (2, 2)):
        assert three.produce([], batch=sequenced(three, sequence)).base_offset == offset
    three.run(1_500)
    lost = three.produce([], batch=sequenced(three, 5))
    assert code(lost.error_code) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_batches_behind_one_that_found_too_few_replicas_get_its_answer(three: Cluster) -> None:
    partition = three.partition(three.leader("t"))
    assert three.produce([], batch=sequenced(three, 0)).error_code == 0
    three.sim.nodes[followers(three)[0]].kill()
    three.until(lambda: len(isr(three)) == 2)
    partition.min_isr = 3
    refused = three.produce([], batch=sequenced(three, 1))
    assert code(refused.error_code) == "NOT_ENOUGH_REPLICAS"
    partition.min_isr = 2
    behind = three.produce([], batch=sequenced(three, 2))
    assert code(behind.error_code) == "NOT_ENOUGH_REPLICAS"
    for sequence in (1, 2):
        assert three.produce([], batch=sequenced(three, sequence)).base_offset == sequence


def test_the_wrong_broker_names_the_right_one(three: Cluster) -> None:
    wrong = followers(three)[0]
    leader = three.leader("t")
    request = three.produce_request([b"a"])
    request.topic_data[0].name = ""
    response = three.ask(request, wrong, 13)
    answer = response.responses[0].partition_responses[0]
    assert code(answer.error_code) == "NOT_LEADER_OR_FOLLOWER"
    assert answer.current_leader.leader_id == leader
    assert [(e.node_id, e.host) for e in response.node_endpoints] == [(leader, f"n{leader}")]
    old = three.ask(three.produce_request([b"a"]), wrong, 9)
    assert code(old.responses[0].partition_responses[0].error_code) == "NOT_LEADER_OR_FOLLOWER"


def test_the_right_one_is_named_where_the_clients_listener_reaches_it(three: Cluster) -> None:
    wrong, leader = followers(three)[0], three.leader("t")
    broker = three.broker(wrong)
    outside = ListenerEndpoint("outside", 19092)
    broker.image.brokers[leader].listeners["EXTERNAL"] = outside
    asked: list[tuple[Any, ApiKey, int, Any]] = [
        (three.produce_request([b"a"]), ApiKey.PRODUCE, 12, produce.handle),
        (three.fetch_request(), ApiKey.FETCH, 10, fetch.handle),
        (three.fetch_request(leader_epoch=0), ApiKey.FETCH, 18, fetch.handle),
    ]
    for request, api_key, version, handle in asked:
        if version == 18:  # fenced: this broker knows the epoch behind that one
            broker.replicas.by_name["t", 0].leader_epoch = 1
        ctx = RequestContext(api_key=api_key, api_version=version, listener="EXTERNAL")
        response = handle(request, ctx, broker)
        named = [(e.node_id, e.host, e.port) for e in response.node_endpoints]
        assert named == ([] if version == 10 else [(leader, *outside[:2])])


def test_the_leader_is_named_by_a_broker_without_a_replica() -> None:
    cluster = Cluster(2)
    cluster.create_topic("t", 1, 1)
    leader = cluster.leader("t")
    other = next(n for n in cluster.ids if n != leader)
    cluster.until(lambda: "t" in cluster.broker(other).image.topics_by_name)
    response = cluster.ask(cluster.fetch_request(), other, 18)
    answer = response.responses[0].partitions[0]
    assert code(answer.error_code) == "NOT_LEADER_OR_FOLLOWER"
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (leader, 0)
    assert [e.node_id for e in response.node_endpoints] == [leader]


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, "UNKNOWN_LEADER_EPOCH"), (-1, "NOT_LEADER_OR_FOLLOWER")]
)
def test_a_fetcher_that_is_no_replica_yet_gets_a_retriable_error(epoch: int, expected: str) -> None:
    cluster = Cluster(2)
    cluster.create_topic("t", 1, 1)
    leader = cluster.leader("t")
    request = cluster.fetch_request(leader_epoch=epoch)
    request.replica_state = ReplicaState(replica_id=3 - leader, replica_epoch=-1)
    data = cluster.ask(request, leader, 17).responses[0].partitions[0]
    assert code(data.error_code) == expected


@pytest.mark.parametrize("version", [10, 11, 12])
def test_topics_are_asked_for_by_id_from_metadata_12(version: int) -> None:
    cluster = Cluster(1)
    topic_id = cluster.create_topic("t")
    for asked in (
        MetadataRequestTopic(name="t", topic_id=topic_id),
        MetadataRequestTopic(name=None, topic_id=topic_id),
    ):
        [told] = cluster.ask(MetadataRequest(topics=[asked]), 1, version).topics
        assert code(told.error_code) == ("NONE" if version == 12 else "INVALID_REQUEST")


def test_consumers_may_read_from_followers_to_the_high_watermark(three: Cluster) -> None:
    three.produce([b"a"])
    follower = followers(three)[0]
    three.until(lambda: three.partition(follower).high_watermark == 1)
    assert values_of(three.fetch(node=follower)) == [b"a"]
    old = three.ask(three.fetch_request(), follower, 10)
    assert code(old.responses[0].partitions[0].error_code) == "NOT_LEADER_OR_FOLLOWER"


def test_a_parked_produce_gets_an_error_when_the_leadership_ends(three: Cluster) -> None:
    leader = three.leader("t")
    for node in followers(three):
        three.sim.network.cut(f"n{leader}", f"n{node}")
    request = three.produce_request([b"a"], timeout_ms=60_000)
    request.topic_data[0].name = ""
    answer = three.ask_later(request, leader, 13)
    three.run(50)
    assert not answer.is_there
    three.until(lambda: any(three._leads(n, "t", 0) for n in three.ids if n != leader))
    three.sim.network.heal()
    three.until(lambda: answer.is_there)
    told = answer.value.responses[0].partition_responses[0]
    assert code(told.error_code) == "NOT_LEADER_OR_FOLLOWER"


@pytest.mark.slow
def test_deleted_records_are_gone_on_every_replica(three: Cluster) -> None:
    for value in (b"a", b"b", b"c"):
        three.produce([value])
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
            )
        ],
        timeout_ms=5000,
    )
    answer = three.ask(request, three.leader("t")).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, 2)
    for node in three.ids:
        log = three.partition(node).log
        assert log is not None and log.log_start_offset == 2
    assert code(three.fetch(0).error_code) == "OFFSET_OUT_OF_RANGE"
    assert values_of(three.fetch(2)) == [b"c"]
    beyond = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=9)]
            )
        ],
        timeout_ms=5000,
    )
    refused = three.ask(beyond, three.leader("t")).topics[0].partitions[0]
    assert code(refused.error_code) == "OFFSET_OUT_OF_RANGE"


def test_a_partition_named_twice_is_deleted_up_to_the_last_offset_named(
    three: Cluster,
) -> None:
    for value in (b"a", b"b", b"c"):
        three.produce([value])
    asked = [
        DeleteRecordsTopic(
            name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
        )
        for offset in (3, 1)
    ]
    request = DeleteRecordsRequest(topics=asked, timeout_ms=5000)
    [topic] = three.ask(request, three.leader("t")).topics
    [answer] = topic.partitions
    assert (answer.error_code, answer.low_watermark) == (0, 1)
    assert values_of(three.fetch(1)) == [b"b", b"c"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("", "NONE"), ("compact", "POLICY_VIOLATION"), ("compact,delete", "NONE")],
)
def test_records_are_deleted_unless_the_topic_only_compacts(policy: str, expected: str) -> None:
    cluster = Cluster(1)
    cluster.create_topic("t", 1, 1, cleanup_policy=policy)
    cluster.produce([b"a"])
    partitions = [DeleteRecordsPartition(partition_index=0, offset=1)]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=5000
    )
    answer = cluster.ask(request).topics[0].partitions[0]
    assert code(answer.error_code) == expected


def test_no_client_deletes_the_records_of_coordinators() -> None:
    """Whatever the policy of their topic: what groups rest on would be gone."""
    cluster = Cluster(1)
    cluster.create_topic("__consumer_offsets", 1, 1, cleanup_policy="compact,delete")
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="__consumer_offsets",
                partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)],
            )
        ],
        timeout_ms=5000,
    )
    answer = cluster.ask(request, 1).topics[0].partitions[0]
    assert (code(answer.error_code), answer.low_watermark) == ("INVALID_TOPIC_EXCEPTION", -1)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["follower", "leader"])
def test_deletion_is_answered_where_retention_moved_an_idle_logs_start(first: str) -> None:
    """One replica's retention goes first; nothing else would tell the other of it, or of its own."""
    cluster = Cluster(2)
    cluster.create_topic("t", 1, 2, internal_segment_bytes="400", retention_ms="60000")
    leader, (follower,) = cluster.leader("t"), followers(cluster)
    logs = [cluster.partition(n).log for n in cluster.ids]
    for _ in range(12):
        cluster.produce([b"record"] * 3, node=leader)
    cluster.run(61_000)
    cluster.produce([b"keeps"], node=leader)
    cluster.until(lambda: all(log is not None and log.high_watermark == 37 for log in logs))
    cluster.broker(follower if first == "follower" else leader).logs.apply_retention()
    cluster.run(2_000)
    asked = DeleteRecordsTopic(
        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=10)]
    )
    request = DeleteRecordsRequest(topics=[asked], timeout_ms=5_000)
    answer = cluster.ask(request, leader).topics[0].partitions[0]
    assert code(answer.error_code) == "NONE" and answer.low_watermark >= 10


def test_deletion_waits_no_longer_for_a_replica_that_is_gone(three: Cluster) -> None:
    three.produce([b"a"])
    leader, gone = three.leader("t"), followers(three)[0]
    for (
        other
    ) in three.ids:  # it is fenced after a while: the other follower has answered long before
        if other != gone:
            three.sim.network.cut(f"n{gone}", f"n{other}")
            three.sim.network.cut(f"n{other}", f"n{gone}")
    asked = DeleteRecordsTopic(
        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)]
    )
    request = DeleteRecordsRequest(topics=[asked], timeout_ms=60_000)
    answer = three.ask(request, leader).topics[0].partitions[0]
    assert code(answer.error_code) == "NONE" and answer.low_watermark == 1


@pytest.mark.slow
def test_a_full_disk_takes_the_directory_not_the_node() -> None:
    cluster = Cluster(3, log_dirs="/data,/second")
    cluster.create_topic("t", 6, 3, min_insync_replicas="1")
    leader = cluster.leader("t")
    cluster.until(lambda: len(isr(cluster)) == 3)
    broker = cluster.broker(leader)
    home = broker.logs.directory_of(cluster.partition(leader).name)
    assert home is not None
    metadata_dir = broker.config.metadata_log_dir
    index = next(
        i for i in range(6)
        if cluster.partition(leader, "t", i).is_leader
        and broker.logs.directory_of(cluster.partition(leader, "t", i).name).path != metadata_dir  # type: ignore[union-attr]
    )  # fmt: skip
    partition = cluster.partition(leader, "t", index)
    broker.logs.fail_log(partition.name, OSError(28, "No space left on device"))
    answer = cluster.produce([b"a"], node=leader, index=index)
    assert code(answer.error_code) == "KAFKA_STORAGE_ERROR"
    for version, told in ((5, "NOT_LEADER_OR_FOLLOWER"), (6, "KAFKA_STORAGE_ERROR")):
        response = cluster.ask(cluster.fetch_request(index=index), leader, version)
        assert code(response.responses[0].partitions[0].error_code) == told
    described = cluster.ask(DescribeLogDirsRequest(topics=None), leader)
    assert sorted(code(r.error_code) for r in described.results) == ["KAFKA_STORAGE_ERROR", "NONE"]
    [offline] = described.offline_reasons
    assert "No space left on device" in offline.reason
    # The controller learns it at once: another broker leads, and this node still lives.
    cluster.until(lambda: cluster.leader("t", index) != leader, 3000)
    assert cluster.produce([b"a"], index=index).error_code == 0
    assert leader in cluster.ids


def test_an_append_that_fails_takes_the_directory_offline() -> None:
    cluster = Cluster(1, log_dirs="/meta,/data", metadata_log_dir="/meta")
    cluster.create_topic("t", 4, 1)
    broker = cluster.broker()
    index = next(
        i for i in range(4)
        if broker.logs.directory_of(cluster.partition(1, "t", i).name).path == "/data"  # type: ignore[union-attr]
    )  # fmt: skip
    cluster.sim.nodes[1].machine.disk.fail_call(1, prefix="/data/")
    answer = cluster.produce([b"a"], index=index)
    assert code(answer.error_code) == "KAFKA_STORAGE_ERROR"
    other = next(i for i in range(4) if cluster.partition(1, "t", i).is_online)
    assert cluster.produce([b"a"], index=other).error_code == 0


def test_a_clean_end_hands_the_leaderships_over_first(three: Cluster) -> None:
    three.produce([b"a"])
    leader = three.leader("t")
    stopped: list[bool] = []
    three.sim.nodes[leader].shut_down(lambda: stopped.append(True))
    three.until(lambda: bool(stopped), 4000)
    new = three.leader("t")
    assert new != leader
    assert three.produce([b"b"]).base_offset == 1
    three.sim.nodes[leader].start()
    three.until(lambda: len(isr(three)) == 3)
    known = three.broker(new).image.brokers[leader]
    assert three.broker(leader).logs.previous_broker_epoch >= 0
    assert not known.fenced


def test_the_end_of_all_does_not_wait_for_a_controller(three: Cluster) -> None:
    stopped: list[int] = []
    began = three.world.now_ms
    for node in three.ids:
        three.sim.nodes[node].shut_down(partial(stopped.append, node))
    three.until(lambda: len(stopped) == 3, 5000)
    assert three.world.now_ms - began < 4500


def test_metadata_by_any_broker_and_topics_that_come_by_asking(three: Cluster) -> None:
    for node in three.ids:
        response = three.ask(MetadataRequest(topics=None), node)
        assert [b.node_id for b in response.brokers] == [1, 2, 3]
        assert [t.name for t in response.topics] == ["t"]
        assert len(response.topics[0].partitions[0].isr_nodes) == 3
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="made")])
    first = three.ask(asked, 2).topics[0]
    assert code(first.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    three.until(lambda: three.ask(asked, 2).topics[0].error_code == 0)
    illegal = MetadataRequest(topics=[MetadataRequestTopic(name="no/slash")])
    assert code(three.ask(illegal, 2).topics[0].error_code) == "INVALID_TOPIC_EXCEPTION"
    refused = MetadataRequest(
        topics=[MetadataRequestTopic(name="other")], allow_auto_topic_creation=False
    )
    three.ask(refused, 2)
    three.run(500)
    assert three.ask(refused, 2).topics[0].error_code != 0
    nothing = three.ask(MetadataRequest(topics=[]), 1, 0)
    assert sorted(t.name for t in nothing.topics) == ["made", "t"]


def test_a_cordoned_directory_is_reported_to_the_controller() -> None:
    cluster = Cluster(1, log_dirs="/data,/second")
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=4,
                resource_name="1",
                configs=[AlterableConfig(name="cordoned.log.dirs", value="/second")],
            )
        ]
    )
    assert cluster.ask(request).responses[0].error_code == 0
    second = next(d for d in cluster.broker().logs.directories if d.path == "/second")
    cluster.until(
        lambda: cluster.broker().image.brokers[1].cordoned == (second.directory_id,), 3000
    )
    cluster.create_topic("t", 4, 1)
    assert not second.logs


@pytest.mark.slow
def test_a_follower_that_was_fenced_while_it_fetched_is_taken_in_when_it_is_not(
    three: Cluster,
) -> None:
    """Cut off from the controller alone it loses its session, but not its place in the fetch session, which
    names only what moves: nothing does, so no fetch of its own asks for the ISR again (seed 2)."""
    three.create_topic("u", 6, 3)
    (controller,) = (n for n in three.ids if three.sim.nodes[n] is three.sim.active_controller())
    index = next(index for index in range(6) if three.leader("u", index) != controller)
    leader = three.leader("u", index)
    (who,) = set(three.ids) - {leader, controller}

    def members() -> tuple[int, ...]:
        state = three.partition(leader, "u", index).leader
        assert state is not None
        return state.isr

    three.until(lambda: len(members()) == 3)
    hosts = [three.sim.nodes[node].machine.host for node in (who, controller)]
    three.sim.network.cut(*hosts)
    three.sim.network.cut(*reversed(hosts))
    three.until(lambda: who not in members(), 60_000)
    three.run(2_000)
    three.sim.network.heal()
    three.until(lambda: not three.broker(leader).image.brokers[who].fenced)
    three.until(lambda: who in members(), 100)
