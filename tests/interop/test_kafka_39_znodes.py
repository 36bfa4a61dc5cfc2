"""The znodes of an Apache Kafka 3.9.1 broker: read, written back in the same bytes, shown as records."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from barnabas.cli.connection.zookeeper_reader import read_znodes
from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.znode_table import FolderZnode, decode_znode
from tests.peers import CLASS_PATH_39

JAVA = ("java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH_39)
START_S = 60.0
pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    """The ZooKeeper that Kafka 3.9.1 brings."""
    directory = tmp_path_factory.mktemp("zookeeper")
    with ZooKeeperServers(directory, libraries=CLASS_PATH_39) as servers:
        yield servers


@pytest.fixture(scope="module")
def bootstrap(
    ensemble: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker of Apache Kafka 3.9.1 on it, with topics, ACLs, a user and quotas."""
    directory = tmp_path_factory.mktemp("kafka39")
    [port] = FreePorts().take(1)
    keys = {
        "broker.id": 1,
        "zookeeper.connect": f"{ensemble.connect}/kafka",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": directory / "data",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    file = directory / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    with (directory / "kafka.log").open("wb") as log:
        broker = subprocess.Popen([*JAVA, "kafka.Kafka", str(file)], stdout=log, stderr=log)
        try:
            address = f"127.0.0.1:{port}"
            _wait_for(broker, address)
            _fill(address)
            yield address
        finally:
            broker.kill()
            broker.wait()


def _wait_for(broker: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + START_S
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    while time.monotonic() < until:
        assert broker.poll() is None, "Kafka 3.9.1 has ended"
        with suppress(KafkaException):  # it does not listen yet
            if admin.list_topics(timeout=1).brokers:
                return
    raise AssertionError("Kafka 3.9.1 does not answer")


def _fill(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    configs = {"retention.ms": "1000", "cleanup.policy": "compact", "segment.bytes": "1048576"}
    topics = [NewTopic("flights", 14, 1, config=configs), NewTopic("one", 1, 1)]
    acls = [
        AclBinding(ResourceType.TOPIC, name, kind, user, "*", operation, AclPermissionType.ALLOW)
        for name, kind in (
            ("flights", ResourcePatternType.LITERAL),
            ("fl", ResourcePatternType.PREFIXED),
        )
        for user in ("User:a", "User:b")
        for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    ]
    for futures in (admin.create_topics(topics), admin.create_acls(acls)):
        for future in futures.values():
            future.result(30)
    user = ("--entity-type", "users", "--entity-name", "al@ice")
    _configure(address, "SCRAM-SHA-256=[iterations=4096,password=secret]", *user)
    quotas = "producer_byte_rate=1024,request_percentage=12.5"
    _configure(address, quotas, *user, "--entity-type", "clients", "--entity-default")
    _configure(address, "log.cleaner.threads=2", "--entity-type", "brokers", "--entity-default")


def _configure(address: str, settings: str, *entity: str) -> None:
    command = ["kafka.admin.ConfigCommand", "--bootstrap-server", address, "--alter"]
    subprocess.run(
        [*JAVA, *command, "--add-config", settings, *entity], check=True, capture_output=True
    )


def test_every_znode_is_written_back_in_the_same_bytes(
    ensemble: ZooKeeperServers, bootstrap: str
) -> None:
    znodes = read_znodes(f"{ensemble.connect}/kafka")
    values = {path: decode_znode(path, data) for path, (data, _) in znodes.items()}
    different = {
        path: value for path, value in values.items() if value.encode() != znodes[path].data
    }
    assert not different
    unknown = {
        path for path, value in values.items() if isinstance(value, FolderZnode) and value.data
    }
    assert not unknown
    assert len({type(value).__name__ for value in values.values()}) >= 11


def test_the_records_of_all_znodes_give_the_same_documents(
    ensemble: ZooKeeperServers, bootstrap: str
) -> None:
    znodes = read_znodes(f"{ensemble.connect}/kafka")
    layout = ClusterLayout()
    layout.load(znodes)
    again = ClusterLayout(layout.controller_epoch)
    written = {
        one.path: getattr(one, "data", b"") for one in again.apply(layout.records(), notify=False)
    }
    own = (
        "/brokers/topics/",
        "/config/topics/",
        "/config/users/al%40ice",
        "/config/brokers/<",
        "/kafka-acl",
    )
    for path, (data, _) in znodes.items():
        if path.startswith(own) and data and "changes" not in path:
            assert written[path] == data


def test_metadata_cat_shows_znodes_as_the_records_they_hold(
    ensemble: ZooKeeperServers, bootstrap: str
) -> None:
    arguments = ["metadata", "cat", "/topics/byName", "--zookeeper", f"{ensemble.connect}/kafka"]
    result = subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert set(json.loads(result.stdout)) == {"flights", "one"}
