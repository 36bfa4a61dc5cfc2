"""Files of brokers that ZooKeeper coordinates."""

from __future__ import annotations

import pytest

from barnabas.config.coordination import QUORUM, STANDARD_AUTHORIZER
from barnabas.config.definition import ConfigError
from barnabas.config.meta_properties import zookeeper_owner_text
from barnabas.zookeeper.config.coordination import ensemble_of, migration_of, node_config
from barnabas.zookeeper.config.settings import GENERATED

FILE = {"zookeeper.connect": "z1:2181/kafka", "broker.id": "7", "log.dirs": "/data"}


def test_a_file_without_roles_describes_a_broker_in_zookeeper_mode() -> None:
    config = node_config(FILE)
    assert ensemble_of(config).connect == "z1:2181/kafka"
    assert ensemble_of(config).session_timeout_ms == 18_000
    assert (config.node_id, config.is_broker, config.is_controller) == (7, True, False)
    assert config.unknown == ()


def test_a_file_with_roles_has_a_quorum() -> None:
    roles = {"process.roles": "broker", "node.id": "7", "controller.listener.names": "C"}
    voters = {"controller.quorum.voters": "1@c:9093"}
    assert node_config({**FILE, **roles, **voters}).coordination is QUORUM


def test_a_broker_without_an_id_has_one_generated() -> None:
    without = {key: value for key, value in FILE.items() if key != "broker.id"}
    assert node_config(without).node_id == GENERATED


def test_a_broker_that_migrates_knows_its_quorum() -> None:
    enabled = {**FILE, "zookeeper.metadata.migration.enable": "true"}
    named = {**enabled, "controller.listener.names": "C", "controller.quorum.voters": "100@c:9093"}
    config = node_config(named)
    assert ensemble_of(config).migrates
    assert [int(voter.node_id) for voter in config.voters] == [100]
    with pytest.raises(ConfigError, match=r"controller\.listener\.names"):
        node_config({**enabled, "controller.quorum.voters": "100@c:9093"})


def test_a_controller_that_migrates_names_the_ensemble_and_is_no_broker() -> None:
    controller = {
        "process.roles": "controller",
        "node.id": "100",
        "listeners": "C://c:9093",
        "controller.listener.names": "C",
        "controller.quorum.voters": "100@c:9093",
        "zookeeper.metadata.migration.enable": "true",
        "log.dirs": "/meta",
    }
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        node_config(controller)
    config = node_config({**controller, "zookeeper.connect": "z:2181"})
    ensemble = migration_of(config)
    assert ensemble is not None and ensemble.connect == "z:2181" and not config.unknown
    both = {"process.roles": "broker,controller", "listeners": "C://c:9093,PLAINTEXT://c:9092"}
    with pytest.raises(ConfigError, match="no broker"):
        node_config({**controller, "zookeeper.connect": "z:2181", **both})


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"broker.id": "1001"}, "broker.id"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "broker.id"),
        ({"inter.broker.protocol.version": "3.5"}, "upgrade to 3.6"),
        ({"inter.broker.protocol.version": "4.0"}, "inter.broker.protocol.version"),
        ({"zookeeper.metadata.migration.enable": "true"}, "zookeeper.metadata.migration.enable"),
        ({"authorizer.class.name": STANDARD_AUTHORIZER}, "AclAuthorizer"),
        ({"control.plane.listener.name": "OTHER"}, "advertised listeners"),
        ({"control.plane.listener.name": "PLAINTEXT"}, "another listener"),
        ({"authorizer.zookeeper.url": "other:2181"}, "zookeeper.connect"),
    ],
)
def test_settings_that_zookeeper_mode_lacks_are_refused(change: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        node_config({**FILE, **change})


@pytest.mark.parametrize("version", ["3.6", "3.6-IV2", "3.7-IV4", "3.9", "3.9-IV0"])
def test_a_file_of_a_cluster_since_kafka_3_6_is_taken_as_it_is(version: str) -> None:
    node_config({**FILE, "inter.broker.protocol.version": version})


def test_meta_properties_are_those_of_kafka_3_9() -> None:
    lines = zookeeper_owner_text("abc", 7).splitlines()
    assert {"version=0", "cluster.id=abc", "broker.id=7"} <= set(lines)


def test_the_map_of_protocols_names_no_controllers() -> None:
    listeners = {"listeners": "A://h:1", "inter.broker.listener.name": "A"}
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT"}
    config = node_config({**FILE, **listeners, **protocols})
    assert config.inter_broker_listener_name == "A"


def test_the_control_plane_of_kafkas_documentation_is_taken() -> None:
    keys = {
        "listeners": "INTERNAL://h:9092,EXTERNAL://h:9093,CONTROLLER://h:9094",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "control.plane.listener.name": "CONTROLLER",
    }
    config = node_config({**FILE, **keys})
    assert [spec.name for spec in config.broker_listeners] == ["INTERNAL", "EXTERNAL", "CONTROLLER"]


def test_znodes_are_not_secured_for_brokers_without_an_identity() -> None:
    keys = {"zookeeper.connect": "z:2181", "broker.id": "1", "zookeeper.set.acl": "true"}
    with pytest.raises(ConfigError, match="brokers need an identity at the ensemble"):
        node_config(keys)
    keys |= {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": "/k.pem"}
    assert ensemble_of(node_config(keys)).set_acl
