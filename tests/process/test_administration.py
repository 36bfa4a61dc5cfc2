"""What administrators do to a cluster of processes: levels, producer ids, cordons, brokers that are given
up, settings without a restart, leaders that return by themselves; processes are killed in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.client.admin import BROKER, TOPIC
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.wire.schema import Message
from bench.wire import active_controller
from tests.json_shapes import assert_documented
from tests.process.load import view, wait_for_leader, wait_until_whole

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]

SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=SETTINGS) as cluster:
        yield cluster


def ask(cluster: Cluster, request: Message, node: int | None = None) -> Any:
    """Any broker, or one."""
    at = cluster.bootstrap if node is None else cluster.node(node)["listeners"]["PLAINTEXT"]
    with connect(at) as client:
        if node is None:
            return client.call(client.client.ask_any(lambda: request))
        client.call(client.client.cluster.refresh())
        return client.call(client.client.ask_node(node, request))


def configure(cluster: Cluster, kind: int, name: str, **changes: str | None) -> None:
    keys = {key.replace("_", "."): value for key, value in changes.items()}
    with connect(cluster.bootstrap) as client:
        client.call(client.admin.alter_configs(kind, name, keys))


def told(cluster: Cluster, topic: str, key: str) -> tuple[str | None, int]:
    """A topic's value and where it comes from (Kafka's number)."""
    with connect(cluster.bootstrap) as client:
        entries = client.call(client.admin.describe_configs(TOPIC, topic))
        return next((entry.value, entry.source) for entry in entries if entry.name == key)


def start_again(cluster: Cluster, node: int) -> None:
    before = cluster.log_text(node).count("broker.unfenced")
    cluster.restart(node)
    cluster.wait_for(
        lambda: cluster.log_text(node).count("broker.unfenced") > before, f"broker {node}", 60
    )


def test_a_level_goes_down_and_up_and_every_broker_knows(cluster: Cluster) -> None:
    def set_level(level: int, kind: int) -> int:
        update = FeatureUpdateKey(
            feature="group.version", max_version_level=level, upgrade_type=kind
        )
        return int(ask(cluster, UpdateFeaturesRequest(feature_updates=[update])).error_code)

    def finalized(node: int) -> dict[str, int]:
        me = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        response = ask(cluster, me, node)
        return {f.name: f.max_version_level for f in response.finalized_features}

    assert set_level(0, 1) == ErrorCode.INVALID_UPDATE_VERSION, (
        "the request does not allow a downgrade"
    )
    for level, kind in ((0, 2), (1, 1)):
        assert set_level(level, kind) == 0
        for node in cluster.node_ids:
            cluster.wait_for(
                lambda n=node, at=level: finalized(n).get("group.version", 0) == at,  # type: ignore[misc]
                f"level {level} on broker {node}",
            )


def test_no_producer_id_is_given_twice_whichever_node_dies(cluster: Cluster) -> None:
    given: list[int] = []

    def take(nodes: list[int]) -> None:
        for node in nodes:
            answer = ask(cluster, InitProducerIdRequest(transactional_id=None), node)
            assert answer.error_code == 0
            given.append(answer.producer_id)

    take(cluster.node_ids * 2)
    victim = active_controller(cluster.bootstrap)
    cluster.kill(victim)
    take([node for node in cluster.node_ids if node != victim])
    start_again(cluster, victim)
    take(cluster.node_ids)
    assert len(set(given)) == len(given)


def test_a_broker_that_is_given_up_leaves_everything_and_may_come_back(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(cluster.bootstrap) as client:
        client.create_topic("given-up", 3, 3)
    wait_until_whole(cluster, "given-up")
    victim = next(n for n in cluster.node_ids if n != active_controller(cluster.bootstrap))
    cluster.kill(victim)
    cluster.wait_for(
        lambda: all(victim not in p.isr for p in view(cluster, "given-up").values()), "its absence"
    )
    for verb, id_of in (("unregister", "broker"), ("unregister-controller", "controller")):
        words = ["cluster", verb, "--id", str(victim), "-b", cluster.bootstrap, "--json"]
        capfd.readouterr()
        assert main(words) == 0
        told = json.loads(capfd.readouterr().out)
        assert_documented(words, told)
        assert told[id_of] == victim
    assert ask(cluster, UnregisterBrokerRequest(broker_id=victim)).error_code
    with connect(cluster.bootstrap) as client:
        known = {broker.node_id for broker in client.describe_cluster().brokers}
    assert known == set(cluster.node_ids) - {victim}
    start_again(cluster, victim)
    wait_until_whole(cluster, "given-up")


def test_a_living_broker_that_is_fenced_registers_again(cluster: Cluster) -> None:
    with connect(cluster.bootstrap) as client:
        client.create_topic("idle", 6, 3)
    wait_until_whole(cluster, "idle")
    who = next(n for n in cluster.node_ids if n != active_controller(cluster.bootstrap))
    before = cluster.log_text(who).count("broker.unfenced")
    assert ask(cluster, UnregisterBrokerRequest(broker_id=who)).error_code == 0
    cluster.wait_for(lambda: cluster.log_text(who).count("broker.unfenced") > before, "its return")
    wait_until_whole(cluster, "idle")


def test_a_cordoned_broker_takes_no_new_replicas(cluster: Cluster) -> None:
    who = cluster.node_ids[-1]

    def cordoned() -> bool:
        results = ask(cluster, DescribeLogDirsRequest(topics=None), who).results
        return all(directory.is_cordoned for directory in results)

    configure(cluster, BROKER, str(who), cordoned_log_dirs="*")
    try:
        cluster.wait_for(cordoned, "its directories to be cordoned")
        with connect(cluster.bootstrap) as client:
            client.create_topic("elsewhere", 6, 2)
            with pytest.raises(KafkaError, match="cordoned"):
                client.create_topic("wide", 1, 3)
        wait_until_whole(cluster, "elsewhere")
        assert all(who not in p.replicas for p in view(cluster, "elsewhere").values())
    finally:
        configure(cluster, BROKER, str(who), cordoned_log_dirs=None)
    cluster.wait_for(lambda: not cordoned(), "its directories to be released")
    with connect(cluster.bootstrap) as client:
        client.create_topic("wide", 1, 3)


def test_settings_change_without_a_restart(cluster: Cluster) -> None:
    with connect(cluster.bootstrap) as client:
        client.create_topic("set", 1, 3)
    wait_until_whole(cluster, "set")
    default = told(cluster, "set", "segment.bytes")
    configure(cluster, BROKER, "", log_segment_bytes="2000000")
    cluster.wait_for(
        lambda: told(cluster, "set", "segment.bytes") == ("2000000", 3), "the cluster's"
    )
    configure(cluster, TOPIC, "set", segment_bytes="1500000")
    cluster.wait_for(lambda: told(cluster, "set", "segment.bytes") == ("1500000", 1), "its own")
    with pytest.raises(KafkaError, match="nope"):
        configure(cluster, TOPIC, "set", nope="1")
    configure(cluster, TOPIC, "set", segment_bytes=None)
    configure(cluster, BROKER, "", log_segment_bytes=None)
    cluster.wait_for(lambda: told(cluster, "set", "segment.bytes") == default, "the default")


def test_a_topic_that_is_only_validated_is_not_created(cluster: Cluster) -> None:
    def tried(replicas: int) -> int:
        topic = CreatableTopic(name="tried", num_partitions=2, replication_factor=replicas)
        answer = ask(cluster, CreateTopicsRequest(topics=[topic], validate_only=True))
        return int(answer.topics[0].error_code)

    assert tried(3) == 0
    assert tried(4) == ErrorCode.INVALID_REPLICATION_FACTOR
    with connect(cluster.bootstrap) as client:
        assert "tried" not in {topic.name for topic in client.topics()}


def test_preferred_leaders_return_by_themselves(cluster: Cluster) -> None:
    with connect(cluster.bootstrap) as client:
        client.create_topic("preferred", 3, 3)
    wait_until_whole(cluster, "preferred")
    victim = view(cluster, "preferred")[0].leader
    cluster.kill(victim)
    wait_for_leader(cluster, "preferred", victim)
    start_again(cluster, victim)
    cluster.wait_for(
        lambda: all(p.leader == p.replicas[0] for p in view(cluster, "preferred").values()),
        "every preferred leader",
        60,
    )
