"""Files of brokers that ZooKeeper coordinates."""

from __future__ import annotations

import pytest

from barnabas.config.definition import ConfigError
from barnabas.config.meta_properties import classical_text
from barnabas.config.node import STANDARD_AUTHORIZER, NodeConfig
from barnabas.config.zookeeper import GENERATED

FILE = {"zookeeper.connect": "z1:2181/kafka", "broker.id": "7", "log.dirs": "/data"}


def test_a_file_without_roles_describes_a_classical_broker() -> None:
    config = NodeConfig.from_properties(FILE)
    assert config.zookeeper is not None
    assert config.zookeeper.connect == "z1:2181/kafka"
    assert config.zookeeper.session_timeout_ms == 18_000
    assert (config.node_id, config.is_broker, config.is_controller) == (7, True, False)
    assert config.unknown == ()


def test_a_file_with_roles_has_a_quorum() -> None:
    roles = {"process.roles": "broker", "node.id": "7", "controller.listener.names": "C"}
    voters = {"controller.quorum.voters": "1@c:9093"}
    assert NodeConfig.from_properties({**FILE, **roles, **voters}).zookeeper is None


def test_a_broker_without_an_id_has_one_generated() -> None:
    without = {key: value for key, value in FILE.items() if key != "broker.id"}
    assert NodeConfig.from_properties(without).node_id == GENERATED


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"broker.id": "1001"}, "broker.id"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "broker.id"),
        ({"inter.broker.protocol.version": "2.8"}, "inter.broker.protocol.version"),
        ({"zookeeper.metadata.migration.enable": "true"}, "zookeeper.metadata.migration.enable"),
        ({"authorizer.class.name": STANDARD_AUTHORIZER}, "AclAuthorizer"),
        ({"authorizer.zookeeper.url": "other:2181"}, "zookeeper.connect"),
    ],
)
def test_what_the_mode_does_not_do_is_refused(change: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        NodeConfig.from_properties({**FILE, **change})


def test_meta_properties_are_those_of_kafka_3_9() -> None:
    lines = classical_text("abc", 7).splitlines()
    assert {"version=0", "cluster.id=abc", "broker.id=7"} <= set(lines)


def test_the_map_of_protocols_names_no_controllers() -> None:
    listeners = {"listeners": "A://h:1", "inter.broker.listener.name": "A"}
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT"}
    config = NodeConfig.from_properties({**FILE, **listeners, **protocols})
    assert config.inter_broker_listener_name == "A"
