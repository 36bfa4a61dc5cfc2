"""Each fault of `Cluster` on real nodes, seen by a client from outside, and gone after it was healed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.testing.checks import RecordLedger
from barnabas.testing.cluster import Cluster, ClusterError
from barnabas.testing.links import CLIENT, Links
from barnabas.testing.moves import MoveError
from barnabas.testing.node_faults import FaultError, NodeFaults

pytestmark = [pytest.mark.process, pytest.mark.slow]
SETTINGS = {
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "100",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.message.timestamp.type": "LogAppendTime",
}
NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=SETTINGS, faults=True) as made:
        yield made


@pytest.fixture
def links(cluster: Cluster) -> Iterator[Links]:
    assert cluster.links is not None
    yield cluster.links
    cluster.links.heal()


@pytest.fixture
def faults(cluster: Cluster) -> Iterator[NodeFaults]:
    assert cluster.faults is not None
    yield cluster.faults
    for node in NODES:
        cluster.faults.clear(node)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Connected]:
    with connect(cluster.bootstrap) as connected:
        yield connected


def make_topic(client: Connected, name: str, replicas: tuple[int, ...] = NODES) -> str:
    client.create_topic(name, assignments={0: replicas}, configs={"min.insync.replicas": "1"})
    return name


def isr_of(client: Connected, topic: str) -> list[int]:
    return sorted(client.topic(topic).partitions[0].isr)


def write(cluster: Cluster, topic: str, count: int) -> RecordLedger:
    """Records that a producer of librdkafka gets acknowledged, with whatever retries it needs."""
    ledger = RecordLedger()
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "enable.idempotence": True,
        "socket.timeout.ms": 3_000,
        "request.timeout.ms": 2_000,
        "log_level": 0,
    }
    producer = confluent_kafka.Producer(settings)
    for number in range(count):
        producer.produce(topic, b"%d" % number, on_delivery=ledger.on_delivery)
    assert producer.flush(60) == 0
    assert len(ledger) == count
    return ledger


def test_a_follower_that_is_cut_off_leaves_the_isr_and_returns(
    cluster: Cluster, links: Links, client: Connected
) -> None:
    controller = client.call(client.admin.describe_quorum()).leader_id
    leader, follower = (node for node in NODES if node != controller)  # both reach the controller
    topic = make_topic(client, "cut", (leader, follower, controller))
    links.cut(leader, follower)
    ledger = write(cluster, topic, 10)
    cluster.wait_for(lambda: follower not in isr_of(client, topic), "it to leave the ISR")
    links.heal()
    cluster.checks.isrs_whole([topic])
    cluster.checks.nothing_lost(ledger)


def test_a_client_that_is_cut_off_gets_through_once_the_link_is_whole(
    cluster: Cluster, links: Links, client: Connected
) -> None:
    topic = make_topic(client, "client-cut")
    with client.producer() as producer:
        producer.send(ProducerRecord(topic, b"before"))
        producer.flush()
        links.cut(CLIENT, 1)
        outcome = producer.send(ProducerRecord(topic, b"held up"))
        client.run_for(300)
        held_up = not outcome.done
        links.heal()
    assert held_up and outcome.done
    assert [record.value for record in client.read([topic])] == [b"before", b"held up"]


def test_a_link_is_delayed_and_limited(links: Links, client: Connected) -> None:
    topic = make_topic(client, "slow-link")
    with client.producer() as producer:
        producer.send(ProducerRecord(topic, b"first"))
        producer.flush()
        links.delay(CLIENT, 1, 0.3)
        began = time.monotonic()
        producer.send(ProducerRecord(topic, b"delayed"))
        producer.flush()
        assert time.monotonic() - began >= 0.6  # there and back
        links.heal()
        links.limit(CLIENT, 1, 200_000)
        began = time.monotonic()
        producer.send(ProducerRecord(topic, b"x" * 100_000))
        producer.flush()
        assert time.monotonic() - began >= 0.5


def test_requests_are_refused_as_often_as_was_asked_for(
    cluster: Cluster, faults: NodeFaults, client: Connected
) -> None:
    topic = make_topic(client, "refused")
    plan = faults.refuse(1, "PRODUCE", "NOT_ENOUGH_REPLICAS", times=2)
    ledger = write(cluster, topic, 5)
    assert plan.left == 0
    cluster.checks.nothing_lost(ledger)


def test_a_request_that_is_answered_late_is_answered(faults: NodeFaults, client: Connected) -> None:
    topic = make_topic(client, "late")
    plan = faults.answer_late(1, "PRODUCE", 0.4)
    began = time.monotonic()
    with client.producer() as producer:
        producer.send(ProducerRecord(topic, b"one"))
    assert time.monotonic() - began >= 0.4
    plan.wait()


def test_a_record_whose_answer_is_lost_is_written_once(
    cluster: Cluster, faults: NodeFaults, client: Connected
) -> None:
    topic = make_topic(client, "unanswered")
    plan = faults.answer_never(1, "PRODUCE")
    ledger = write(cluster, topic, 3)
    plan.wait()
    cluster.checks.nothing_lost(ledger)
    assert len(list(client.read([topic]))) == 3


def test_a_command_that_a_node_does_not_know_is_one_sentence(
    cluster: Cluster, faults: NodeFaults, client: Connected
) -> None:
    topic = make_topic(client, "two-replicas", (1, 2))
    with pytest.raises(FaultError, match="'PRODUCES' is unknown"):
        faults.refuse(1, "PRODUCES", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(FaultError, match="/elsewhere is no log directory of this node"):
        faults.fill_disk(1, "/elsewhere")
    with pytest.raises(MoveError, match=r"node 3 has no replica of two-replicas-0, only \[1, 2\]"):
        cluster.moves.leader(topic, 0, 3)


def test_leaders_coordinators_and_the_controller_move(cluster: Cluster, client: Connected) -> None:
    topic = make_topic(client, "moved")
    cluster.moves.leader(topic, 0, 2)
    assert client.topic(topic).partitions[0].leader == 2
    for node in NODES:
        cluster.moves.group_coordinator("any-group", node)
        assert client.topic("__consumer_offsets").partitions[0].leader == node
    before = client.call(client.admin.describe_quorum()).leader_id
    after = cluster.moves.controller()
    assert after != before


def test_a_member_that_expires_joins_again(cluster: Cluster, client: Connected) -> None:
    topic = make_topic(client, "group")
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "expiring",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 200,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])

    def has_joined() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    try:
        cluster.wait_for(has_joined, "the consumer to join")
        cluster.checks.group_stable("expiring")
        gone = cluster.moves.expire_member("expiring")

        def is_back() -> bool:
            consumer.poll(0.1)
            members = client.call(client.admin.describe_group("expiring")).members
            return [member.member_id for member in members] not in ([], [gone])

        cluster.wait_for(is_back, "the consumer to join again")
    finally:
        consumer.close()


def test_a_clock_that_was_stepped_dates_records(
    cluster: Cluster, faults: NodeFaults, client: Connected
) -> None:
    topic = make_topic(client, "dated")
    write(cluster, topic, 1)
    faults.step_clock(1, 3600)
    write(cluster, topic, 1)
    first, second = (record.timestamp_ms for record in client.read([topic]))
    assert second - first > 3_500_000
    faults.clear(1)
    write(cluster, topic, 1)
    assert [r.timestamp_ms for r in client.read([topic])][2] - first < 3_000_000


def test_a_full_directory_goes_offline_and_others_lead(
    cluster: Cluster, faults: NodeFaults, client: Connected
) -> None:
    names = [make_topic(client, f"disk-{n}") for n in range(4)]
    ledger = write(cluster, names[0], 5)
    second = faults.directories(1)[1]
    faults.fill_disk(1, second)
    assert "No space left on device" in cluster.log_text(1)

    def one_lives_there() -> bool:
        views = [client.topic(name).partitions[0] for name in names]
        return any(view.leader != 1 for view in views) and any(view.leader == 1 for view in views)

    cluster.wait_for(one_lives_there, "what was on the full directory to have other leaders")
    faults.clear(1)
    cluster.terminate(1)
    cluster.restart(1)
    cluster.checks.isrs_whole(names)
    cluster.checks.nothing_lost(ledger)


def test_a_node_whose_only_disk_fails_ends(
    cluster: Cluster, faults: NodeFaults, client: Connected
) -> None:
    faults.fail_directory(3)
    cluster.wait_for(lambda: not cluster.is_alive(3), "node 3 to end")
    with pytest.raises(FaultError, match="node 3 does not run"):
        faults.step_clock(3, 1)
    cluster.restart(3)
    cluster.checks.isrs_whole()


def test_a_ledger_finds_what_is_lost(cluster: Cluster, client: Connected) -> None:
    topic = make_topic(client, "ledger")
    ledger = write(cluster, topic, 2)
    ledger.add(topic, 0, 7, b"never written")
    with pytest.raises(AssertionError, match="1 of 3 acknowledged records are lost"):
        cluster.checks.nothing_lost(ledger)
    with pytest.raises(AssertionError, match="acknowledged two records at offset 0"):
        ledger.add(topic, 0, 0, b"another")


def test_a_check_that_is_not_met_says_so_in_time(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="waited 0 s for group missing to be stable"):
        cluster.checks.group_stable("missing", timeout_s=0)
