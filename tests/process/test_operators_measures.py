"""What an operator measures on a running cluster: sizes, rates, lag of groups of every kind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.cli.reassignment.reassignment_progress import under_way
from barnabas.cli.reassignment.reassignment_throttle import is_throttled
from barnabas.client.client import GROUP, raise_for
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.share_consumer import EXPLICIT, ShareConsumerSettings
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.consumers.share_session import ShareFetchSettings
from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit
from barnabas.client.records import DeliveredRecord, ProducerRecord
from barnabas.host.client import BlockingShareConsumer, Connected, connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.json_shapes import assert_documented
from tests.process.load import wait_until_whole

pytestmark = pytest.mark.process
MEMBER = "7Zf3bPcvQ1aVQzU7yWm0XA"
HOUR_MS = 3_600_000
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"auto.leader.rebalance.enable": "false"}) as cluster:
        yield cluster


class Command:
    """Runs commands against the cluster; gives what they print, or what they complain of."""

    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self.where = ["--bootstrap-server", cluster.bootstrap]
        self.capfd = capfd

    def __call__(self, *words: str, status: int = 0) -> str:
        self.capfd.readouterr()
        got = main([*words, *self.where])
        printed = self.capfd.readouterr()
        assert got == status, printed
        return printed.err if status else printed.out

    def json(self, *words: str) -> Any:
        value = json.loads(self(*words, "--json"))
        assert_documented(words, value)
        return value


@pytest.fixture
def run(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capfd)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Connected]:
    with connect(cluster.bootstrap) as connected:
        yield connected


def fill(client: Connected, topic: str, age_ms: int, count: int = 10) -> None:
    """Write `count` records with that age to partition 0 of a new topic."""
    client.create_topic(topic, 2, 3)
    stamp = time.time_ns() // 1_000_000 - age_ms
    with client.producer() as producer:
        for number in range(count):
            value = b"%d" % number
            producer.send(ProducerRecord(topic, value, partition=0, timestamp_ms=stamp))


def test_a_topic_has_the_size_of_its_leaders_and_of_all_replicas(
    run: Command, client: Connected
) -> None:
    fill(client, "sized", 0)
    (topic,) = [t for t in run.json("topics", "list", "--sizes") if t["name"] == "sized"]
    assert topic["records"] == 10 and topic["replica_bytes"] >= topic["leader_bytes"] > 0
    assert topic["records_per_s"] is None
    (topic,) = run.json("topics", "describe", "sized", "--rates", "--sample", "0.1")
    first, second = topic["partition_list"]
    assert first["records"] == 10 and second["records"] == 0 and first["records_per_s"] == 0
    assert run.json("topics", "describe", "--under-replicated", "--under-min-isr") == []
    (topic,) = run.json("topics", "describe", "sized", "--unavailable", "--at-min-isr") or [{}]
    assert not topic or topic["min_insync_replicas"] == 3


def test_lag_in_seconds_is_the_age_of_the_first_record_not_read(
    run: Command, client: Connected
) -> None:
    fill(client, "lagging", HOUR_MS)
    at = {TopicPartition("lagging", 0): CommittedOffset(4)}
    client.call(commit(client.client, GroupIdentity("laggards"), at))
    (group,) = run.json("groups", "lag", "laggards")
    (row,) = group["partitions"]
    assert (row["committed"], row["end"], row["lag"]) == (4, 10, 6)
    assert 3600 <= row["seconds"] < 3660 and group["seconds"] == row["seconds"]
    assert "1 h 0 min" in run("groups", "lag", "laggards")
    run("groups", "reset-offsets", "laggards", "--topic", "lagging:0", "--to-latest", "--execute")
    (group,) = [g for g in run.json("groups", "lag") if g["group"] == "laggards"]
    assert (group["lag"], group["seconds"]) == (0, 0)
    assert "there is no such group" in run("groups", "lag", "nothing", status=1)


def heartbeat(client: Connected, request: Any) -> Any:
    def check(response: Any) -> None:
        raise_for(response.error_code, response.error_message)

    return client.call(
        client.client.ask_coordinator(GROUP, request.group_id, lambda: request, check)
    )


def test_a_share_group_is_described_moved_and_left(run: Command, client: Connected) -> None:
    fill(client, "shared", HOUR_MS)
    heartbeat(
        client,
        ShareGroupHeartbeatRequest(
            group_id="sharers", member_id=MEMBER, subscribed_topic_names=["shared"]
        ),
    )
    told = run.json("groups", "describe", "sharers", "--members")
    assert told["type"] == "share" and told["members"][0]["member_id"] == MEMBER
    reset = ["groups", "reset-offsets", "sharers", "--topic", "shared", "--to-earliest"]
    assert "with 1 member" in run(*reset, "--execute", status=1)
    removed = run.json("groups", "remove-members", "sharers", "--member", MEMBER, "--yes")
    assert removed[0]["outcome"] == "removed"
    run(*reset, "--execute")
    (group,) = run.json("groups", "lag", "sharers")
    assert (group["type"], group["state"], group["members"]) == ("share", "Empty", 0)
    assert [row["committed"] for row in group["partitions"]] == [0, 0]
    told = run.json("groups", "delete-offsets", "sharers", "--topic", "shared", "--yes")
    assert {row["outcome"] for row in told} == {"forgotten"}
    run("groups", "delete", "sharers", "--yes")


def test_a_share_group_is_described_with_what_its_members_have_in_hand(
    run: Command, client: Connected
) -> None:
    fill(client, "handed", HOUR_MS)
    run("configs", "alter", "--group", "handed", "-s", "share.auto.offset.reset=earliest")
    settings = ShareConsumerSettings(EXPLICIT, ShareFetchSettings(records_max=4, strict=True))
    with client.share_consumer("handed", settings) as consumer:
        consumer.consumer.subscribe(["handed"])
        taken = polled(consumer, 4)
        consumer.acknowledge(taken[0])
        consumer.acknowledge(taken[1], Acknowledge.RELEASE)
        assert not any(consumer.commit().values())
        told = run.json("groups", "describe", "handed")
        (row,) = [row for row in told["partitions"] if row["in_flight"]]
        assert row["deliveries"] == {"1": 3}, "the one that was released is delivered next"
        assert (row["partition"], row["end"], row["lag"]) == (0, 10, 9)
        assert (row["in_flight"], row["acquired"]) == (3, 2)
        assert "3 once" in run("groups", "describe", "handed")
        for record in taken[2:]:
            consumer.acknowledge(record)


def polled(consumer: BlockingShareConsumer, most: int) -> list[DeliveredRecord]:
    deadline = time.monotonic() + PATIENCE_S
    while not (taken := consumer.poll(500, most)):
        assert time.monotonic() < deadline, "no record comes"
    return taken


def test_members_of_both_consumer_protocols_are_removed(run: Command, client: Connected) -> None:
    fill(client, "read", 0)
    heartbeat(
        client,
        ConsumerGroupHeartbeatRequest(
            group_id="new", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["read"],
            rebalance_timeout_ms=10_000, topic_partitions=[],
        ),
    )  # fmt: skip
    settings = ConsumerSettings(auto_offset_reset="earliest")
    with client.consumer("old", settings) as consumer:
        consumer.inner.subscribe(["read"])
        while not consumer.poll(100):
            pass
        for group in ("new", "old"):
            (member,) = run.json("groups", "describe", group, "--members")["members"]
            words = ["groups", "remove-members", group]
            assert "say which" in run(*words, status=2)
            assert "has no member x" in run(*words, "--member", "x", status=1)
            assert run.json(*words, "--all", "--dry-run")[0]["outcome"] == "would be removed"
            (removed,) = run.json(*words, "--member", member["member_id"], "--yes")
            assert removed["outcome"] == "removed"
            assert run.json("groups", "describe", group, "--members")["members"] == []


def test_a_skewed_cluster_is_balanced_and_stays_so(run: Command, client: Connected) -> None:
    run("topics", "create", "skewed", "--replica-assignment", "1:2,1:2,1:2,1:2")
    with client.producer() as producer:
        for number in range(40):
            value = bytes(100_000)
            producer.send(ProducerRecord("skewed", value, partition=number % 4))
    words = ["cluster", "balance", "--sample", "0.1", "--tolerance", "25"]
    planned = run.json(*words, "--dry-run")
    assert not planned["executed"]
    assert {tuple(p.replicas) for p in client.topic("skewed").partitions.values()} == {(1, 2)}
    sizes = [[load["bytes"] for load in planned[when]] for when in ("before", "after")]
    assert max(sizes[1]) < max(sizes[0]) and sum(sizes[0]) == sum(sizes[1])
    done = run.json(*words, "--throttle", "1G")
    assert done["executed"] and all(row["refused"] is None for row in done["partitions"])
    placed = client.topic("skewed").partitions
    assert any(3 in partition.replicas for partition in placed.values())
    assert run.json(*words, "--dry-run")["replicas_copied"] == 0
    assert run.json("reassign", "throttle") == {}


def start_balancing(cluster: Cluster, client: Connected) -> subprocess.Popen[str]:
    """A balance whose wave is under way, so slowly that it does not end by itself."""
    words = ["cluster", "balance", "--sample", "0.1", "--tolerance", "5", "--throttle", "1000"]
    balancing = subprocess.Popen(
        [sys.executable, "-m", "barnabas", *words, "--bootstrap-server", cluster.bootstrap],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + PATIENCE_S
    while not under_way(client):
        assert balancing.poll() is None, balancing.communicate()
        assert time.monotonic() < deadline_s
        client.run_for(50)
    return balancing


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True], ids=["interrupted", "a-node-dies"])
def test_a_balance_that_ends_early_leaves_no_move_and_no_throttle(
    run: Command, client: Connected, cluster: Cluster, dies: bool
) -> None:
    topic = f"tilted-{dies}"
    run("topics", "create", topic, "--replica-assignment", "1:2,1:2,1:2,1:2")
    with client.producer() as producer:
        for number in range(80):
            producer.send(ProducerRecord(topic, bytes(100_000), partition=number % 4))
    balancing = start_balancing(cluster, client)
    assert run.json("reassign", "throttle")
    if dies:
        cluster.kill(3)
    balancing.send_signal(signal.SIGTERM)
    _, told = balancing.communicate(timeout=PATIENCE_S)
    assert balancing.returncode == 130 and "went back" in told, told
    assert under_way(client) == {}
    # An order of replicas is changed at once, and no move that could go back.
    views = client.topic(topic).partitions.values()
    assert {tuple(sorted(view.replicas)) for view in views} == {(1, 2)}
    if dies:
        cluster.restart(3)
        wait_until_whole(cluster, topic)
    assert run.json("reassign", "throttle") == {} and not is_throttled(client)
