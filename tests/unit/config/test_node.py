"""A node's properties as a whole: what is accepted, and the sentence where it is not."""

from __future__ import annotations

import pytest

from barnabas.config.definition import ConfigError
from barnabas.config.listeners import ListenerSpec
from barnabas.config.node import NodeConfig
from barnabas.types import Endpoint

ASSIGNOR = "org.apache.kafka.coordinator.group.assignor"
COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "2@127.0.0.1:9095,1@127.0.0.1:9093",
    "log.dirs": "/data/a,/data/b",
}
BROKER_ONLY = {
    "process.roles": "broker",
    "node.id": "4",
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://kafka.example:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


def test_a_combined_node() -> None:
    config = NodeConfig.from_properties({**COMBINED, "broker.rack": "r1", "own.key": "x"})
    assert (config.node_id, config.is_broker, config.is_controller) == (1, True, True)
    assert config.broker_listeners == (ListenerSpec("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert config.controller_listeners == (
        ListenerSpec("CONTROLLER", "127.0.0.1", 9093, "PLAINTEXT"),
    )
    assert [voter.node_id for voter in config.voters] == [1, 2]
    assert config.voters[1].endpoint == Endpoint("127.0.0.1", 9095)
    assert config.is_voter
    assert config.log_dirs == ("/data/a", "/data/b")
    assert config.metadata_log_dir == "/data/a"
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert (config.rack, config.unknown) == ("r1", ("own.key",))
    assert config.properties["own.key"] == "x"


def test_a_broker_only() -> None:
    config = NodeConfig.from_properties(BROKER_ONLY)
    assert (config.is_broker, config.is_controller, config.is_voter) == (True, False, False)
    assert config.listeners[0].endpoint == Endpoint("", 9092)
    assert config.advertised[0].endpoint == Endpoint("kafka.example", 9092)
    assert config.log_dirs == ("/tmp/kafka-logs",)


def test_the_advertised_listener_defaults_to_the_host_name() -> None:
    def reached(**properties: str) -> dict[str, Endpoint]:
        text = {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093,SECOND://10.0.0.1:0",
            "controller.listener.names": "CONTROLLER,SECOND",
        }
        renamed = {name.replace("_", "."): value for name, value in properties.items()}
        config = NodeConfig.from_properties({**COMBINED, **text, **renamed})
        return config.reached_at(config.listeners, lambda: "here")

    servers = {"controller_quorum_voters": "", "controller_quorum_bootstrap_servers": "a:1"}
    assert reached(**servers) == {
        "PLAINTEXT": Endpoint("here", 9092),
        "CONTROLLER": Endpoint("here", 9093),
        "SECOND": Endpoint("10.0.0.1", 0),
    }
    assert reached(controller_quorum_voters="1@b:7")["CONTROLLER"] == Endpoint("b", 7)
    second = "PLAINTEXT://:9092,CONTROLLER://:9093,SECOND://:9094"
    assert reached(controller_quorum_voters="1@b:7", listeners=second) == {
        "PLAINTEXT": Endpoint("here", 9092),
        "CONTROLLER": Endpoint("b", 7),
        "SECOND": Endpoint("here", 9094),
    }
    advertised = reached(advertised_listeners="PLAINTEXT://c:8,CONTROLLER://d:9", **servers)
    assert list(advertised.values())[:2] == [Endpoint("c", 8), Endpoint("d", 9)]


def test_settings_have_kafkas_defaults() -> None:
    config = NodeConfig.from_properties(COMBINED)
    assert config.quorum.election_timeout_ms == 1000
    assert config.quorum.fetch_timeout_ms == 2000
    assert config.broker.session_timeout_ms == 9000
    assert config.replication.lag_time_ms_max == 30_000
    assert config.sockets.request_bytes_max == 104_857_600
    assert config.offsets.topic_partitions == 50
    assert config.groups.initial_rebalance_delay_ms == 3000
    assert config.transactions.timeout_ms_max == 900_000
    assert config.logs.cleaner_dedupe_bytes == 134_217_728
    assert config.metadata_log.bytes_between_snapshots == 20_971_520


def test_dynamic_values_stand_over_the_file_where_they_may() -> None:
    config = NodeConfig.from_properties({**COMBINED, "own.key": "x"})
    later = config.with_dynamic(
        {"message.max.bytes": "5", "node.id": "9", "log.retention.ms": "7", "other": "1"}
    )
    assert later.broker.message_bytes_max == 5
    assert later.node_id == 1
    assert later.texts["log.retention.ms"] == "7"
    assert later.unknown == ("own.key",)
    assert config.broker.message_bytes_max == 1_048_588
    assert later.with_dynamic({}).broker.message_bytes_max == 1_048_588


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"process.roles": ""}, "process.roles: '' is not allowed"),
        ({"process.roles": "broker,zookeeper"}, "a list of broker, controller"),
        ({"node.id": "-1"}, "node.id: '-1' is not allowed; it must be at least 0"),
        ({"node.id": None}, "node.id: it must be given"),
        ({"broker.id": "2"}, "it must equal node.id (1)"),
        (
            {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.Other"},
            "the only authorizer here is org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        (
            {"client.quota.callback.class": "a.B"},
            "'a.B' is not allowed; there are no plug-ins that decide client quotas",
        ),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:99999"}, "a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://h:²"}, "a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://h:" + "9" * 5000}, "a port from 0 to 65535"),
        ({"controller.quorum.voters": "²@h:1"}, "each voter must be id@host:port"),
        ({"controller.quorum.voters": "9" * 5000 + "@h:1"}, "each voter must be id@host:port"),
        ({"controller.quorum.voters": "2147483648@h:1"}, "each voter must be id@host:port"),
        ({"listeners": "nonsense"}, "each listener must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, "must have the listener CONTROLLER"),
        ({"listeners": "CONTROLLER://127.0.0.1:9093"}, "besides the controller's"),
        ({"listeners": "A://:1,CONTROLLER://:2"}, "listener.security.protocol.map must name A"),
        ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "PLAINTEXT already has port 1"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listener names must differ"),
        ({"listeners": "PLAINTEXT://::1:1,CONTROLLER://:2"}, "must be in brackets"),
        ({"listener.security.protocol.map": "PLAINTEXT:NONE"}, "NAME:PROTOCOL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "others cannot connect"),
        ({"advertised.listeners": "SASL_SSL://a:1"}, "listeners has no SASL_SSL"),
        ({"inter.broker.listener.name": "OTHER"}, "one of the advertised listeners"),
        ({"inter.broker.listener.name": "CONTROLLER"}, "must not be a controller's listener"),
        ({"controller.quorum.voters": ""}, "controller.quorum.bootstrap.servers must be given"),
        ({"controller.quorum.voters": "2@a:1"}, "it must name this controller, node.id 1"),
        ({"controller.quorum.voters": "1@a:0"}, "a host and a port above 0"),
        ({"controller.quorum.voters": "1@0.0.0.0:1"}, "others cannot connect to 0.0.0.0"),
        ({"controller.quorum.voters": "a:1"}, "each voter must be id@host:port"),
        ({"controller.quorum.voters": "1@a:1,1@b:1"}, "it names voter 1 twice"),
        ({"replica.fetch.wait.max.ms": "60000"}, "it must not exceed replica.lag.time.max.ms"),
        ({"remote.log.storage.system.enable": "true"}, "no remote tier"),
        ({"offsets.topic.compression.codec": "5"}, "it must be the number of a codec, 0 to 4"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "each entry must be address:number"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:" + "9" * 5000}, "each entry must be"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:2147483648"}, "each entry must be"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip.overrides must name addresses"),
        ({"cordoned.log.dirs": "/nowhere"}, "log.dirs must have all of them"),
        ({"cordoned.log.dirs": "*,/nowhere"}, "it must be alone"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "classic must be among them"),
        ({"group.consumer.assignors": "sticky"}, "it must be of uniform, range"),
        ({"group.share.assignors": "uniform"}, "it must be of simple"),
        ({"group.streams.assignors": "sticky,org.example.Own"}, "it must be of sticky"),
        ({"group.share.assignors": f"simple,{ASSIGNOR}.SimpleAssignor"}, "exactly one assignor"),
        ({"group.consumer.assignors": f"range,{ASSIGNOR}.RangeAssignor"}, "each assignor once"),
        ({"log.roll.ms": "0"}, "log.roll.ms: 0 is not allowed; it must be at least 1"),
        ({"log.roll.jitter.ms": "-1"}, "it must be at least 0"),
        ({"log.retention.ms": "0"}, "it must be at least 1, or -1 for ever"),
        ({"log.retention.hours": "0"}, "log.retention.hours: 0 is not allowed"),
        ({"broker.heartbeat.interval.ms": "9001"}, "must not exceed broker.session.timeout.ms"),
        ({"num.partitions": "0"}, "num.partitions: '0' is not allowed; it must be at least 1"),
    ],
)
def test_contradictory_settings_are_refused(change: dict[str, str | None], sentence: str) -> None:
    properties = {k: v for k, v in {**COMBINED, **change}.items() if v is not None}
    with pytest.raises(ConfigError) as caught:
        NodeConfig.from_properties(properties)
    assert sentence in str(caught.value)


def test_a_brokers_file_need_not_know_what_session_the_controllers_give() -> None:
    broker = COMBINED | {
        "node.id": "3",
        "process.roles": "broker",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "broker.heartbeat.interval.ms": "10000",
    }
    assert NodeConfig.from_properties(broker).broker.heartbeat_interval_ms == 10_000


def test_a_broker_may_not_be_a_voter() -> None:
    with pytest.raises(ConfigError, match="is a broker only"):
        NodeConfig.from_properties({**BROKER_ONLY, "node.id": "1"})


def test_a_broker_may_not_have_the_controllers_listener() -> None:
    listeners = "PLAINTEXT://:9092,CONTROLLER://:9093"
    with pytest.raises(ConfigError, match="only a controller may have"):
        NodeConfig.from_properties({**BROKER_ONLY, "listeners": listeners})
