"""Certificates, keys and authorities of a cluster that runs are replaced, under a client that writes.

By files, the authority in two steps: every truststore gets the new one, then every certificate comes from it,
then the former one goes. By AlterConfigs: both stores of one broker, whose key's password is a variable. No
process is restarted for it; nodes are killed so that the others, which run on, open new connections.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Producer

from barnabas.cli.local.certificate_authority import Authority
from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.network.connection import ChannelError
from barnabas.config.providers import DIRECTORY
from barnabas.host.client import connect
from barnabas.metadata.image.image import BROKER
from barnabas.testing.cluster import Cluster
from tests.clients.access import as_user, authority_of
from tests.clients.checks import fresh, wait_for
from tests.interop.node_process import NodeProcess
from tests.process.launch import barnabas
from tests.process.load import wait_until_whole

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(180)]
PARTITIONS = 3
PASSWORD = "the-key-of-the-key"
MORE = 100
LISTENERS = ("sasl_ssl", "controller")


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "key-password").write_text(PASSWORD)
    return folder


@pytest.fixture
def cluster(secrets: Path) -> Iterator[Cluster]:
    settings = {
        "config.providers": "dir",
        "config.providers.dir.class": DIRECTORY,
        "config.providers.dir.param.allowed.paths": str(secrets),
    }
    with Cluster(nodes=3, settings=settings, secure=True) as cluster:
        yield cluster


class Writer:
    """Numbered records to each partition in turn, until the block ends: every one is acknowledged."""

    def __init__(self, cluster: Cluster, topic: str, trust: str) -> None:
        """`trust`: the file with the authorities that it trusts, which librdkafka reads once."""
        self.acknowledged: list[int] = []
        self.refused: list[str] = []
        self._cluster = cluster
        self._topic = topic
        access = as_user(cluster, "SCRAM-SHA-512", "user").librdkafka()
        more = {"enable.idempotence": True, "acks": "all", "linger.ms": 1, "log_level": 0}
        more["ssl.ca.location"] = trust
        self._producer = Producer(access | more | {"socket.timeout.ms": 5000})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)
        self._producer.flush(60)

    def wait_for_more(self) -> None:
        wanted = len(self.acknowledged) + MORE
        wait_for(lambda: len(self.acknowledged) >= wanted, f"{MORE} more records", 60)

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.002):
            self._producer.produce(
                self._topic,
                b"%d" % number,
                partition=number % PARTITIONS,
                on_delivery=lambda error, _, number=number: self._on_delivery(error, number),
            )
            self._producer.poll(0)
            number += 1

    def _on_delivery(self, error: Any, number: int) -> None:
        if error is None:
            self.acknowledged.append(number)
        else:
            self.refused.append(str(error))

    def check(self) -> None:
        """Everything that was acknowledged is there."""
        assert not self.refused, self.refused[:3]
        cluster = self._cluster
        with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
            there = {int(record.value or b"-1") for record in client.read([self._topic])}
        assert set(self.acknowledged) <= there


def new_topic(cluster: Cluster) -> str:
    topic = fresh("written")
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    wait_until_whole(cluster, topic)
    return topic


def put(file: Path, text: str) -> None:
    """In the place of what was there, at once, as an operator does."""
    draft = file.with_suffix(".new")
    draft.write_text(text)
    draft.chmod(0o600)
    draft.replace(file)


def shown(cluster: Cluster) -> dict[tuple[str, str], str]:
    """The fingerprint that each node shows on each listener."""
    done = barnabas("certificates", "list", "--json", "--data", str(cluster.directory / "cluster"))
    assert done.returncode == 0, done.stderr
    return {(row["node"], row["listener"]): row["fingerprint"] for row in json.loads(done.stdout)}


def is_believed(cluster: Cluster, trusted: Path) -> bool:
    properties = cluster.client_properties | {"ssl.truststore.location": str(trusted)}
    try:
        with connect(cluster.bootstrap, properties=properties) as client:
            client.topics()
    except ChannelError as error:
        assert "does not trust the peer's certificate" in str(error)
        return False
    return True


def test_an_authority_is_replaced_in_two_steps_by_files(cluster: Cluster, tmp_path: Path) -> None:
    topic, folder = new_topic(cluster), cluster.directory / "cluster/security"
    trust, other = Path(authority_of(cluster)), Authority("Another authority")
    former = trust.read_text()
    only_former, only_other = tmp_path / "former.pem", tmp_path / "other.pem"
    only_former.write_text(former)
    only_other.write_text(other.pem)
    before = shown(cluster)

    def let_nodes_meet_again(victim: int) -> None:
        """Those that run on connect to one that comes back, and it to them."""
        writer.wait_for_more()
        cluster.kill(victim)
        writer.wait_for_more()
        cluster.restart(victim)
        wait_until_whole(cluster, topic)
        writer.wait_for_more()

    both = tmp_path / "both.pem"
    both.write_text(former + other.pem)
    with Writer(cluster, topic, str(both)) as writer:
        put(trust, former + other.pem)
        let_nodes_meet_again(1)
        assert is_believed(cluster, only_former) and not is_believed(cluster, only_other)
        for node in cluster.node_ids:
            put(folder / f"node-{node}.pem", other.identity(f"node-{node}").pem())
        let_nodes_meet_again(2)
        after = shown(cluster)
        assert before.keys() == after.keys() and not set(before.values()) & set(after.values())
        assert is_believed(cluster, only_other) and not is_believed(cluster, only_former)
        put(trust, other.pem)
        let_nodes_meet_again(3)
    writer.check()
    for node in cluster.node_ids:
        assert "tls.reload_failed" not in cluster.log_text(node)


def test_stores_are_replaced_by_alter_configs(
    cluster: Cluster, secrets: Path, tmp_path: Path
) -> None:
    """On listeners for clients and controllers, and on the connections of the broker itself."""
    topic, other = new_topic(cluster), Authority("Another authority")
    trust, store = tmp_path / "both.pem", tmp_path / "store.pem"
    trust.write_text(Path(authority_of(cluster)).read_text() + other.pem)
    put(Path(authority_of(cluster)), trust.read_text())
    store.write_text(other.identity("node-1").pem(PASSWORD))
    before = shown(cluster)
    with (
        Writer(cluster, topic, str(trust)) as writer,
        connect(cluster.bootstrap, properties=cluster.client_properties) as client,
    ):

        def alter(of: dict[str, str]) -> None:
            """Keys of each listener of node 1."""
            changes: dict[str, str | None] = {
                f"listener.name.{name}.ssl.{key}": value
                for name in LISTENERS
                for key, value in of.items()
            }
            client.call(client.admin.alter_configs(BROKER, "1", changes))

        def replaced() -> int:
            """Of two listeners, and of two kinds of connections."""
            return cluster.log_text(1).count("tls.replaced")

        alter({"truststore.location": str(trust)})
        wait_for(lambda: replaced() == 4, "the truststore")
        variable = f"${{dir:{secrets}:key-password}}"
        alter({"key.password": variable, "keystore.location": str(store)})
        wait_for(lambda: replaced() == 8, "the keystore")
        after = shown(cluster)
        assert {at for at in after if after[at] != before[at]} == {
            at for at in after if at[0] == "1"
        }
        cluster.kill(2)  # and comes back: node 1 connects to it by its new certificate
        writer.wait_for_more()
        cluster.restart(2)
        wait_until_whole(cluster, topic)
        writer.wait_for_more()
        client.topics()
        described = repr(client.call(client.admin.describe_configs(BROKER, "1")))
        assert str(store) in described and PASSWORD not in described
    writer.check()
    for node in cluster.node_ids:
        text = cluster.log_text(node)
        assert PASSWORD not in text and "broker.config_refused" not in text


def of_role(folder: Path, role: str, node: int, at: dict[str, str]) -> str:
    """The properties of a broker or a controller that speak TLS with each other."""
    listener = "CLIENTS" if role == "broker" else "CONTROLLER"
    return (
        f"process.roles={role}\nnode.id={node}\nlog.dirs={folder}/data\n"
        f"controller.quorum.voters=2@{at['CONTROLLER']}\nlisteners={listener}://{at[listener]}\n"
        "controller.listener.names=CONTROLLER\ninter.broker.listener.name=CLIENTS\n"
        "listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={folder.parent}/store.pem\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={folder.parent}/trust.pem\n"
        "offsets.topic.replication.factor=1\n"
    )


def test_a_node_that_is_only_a_controller_follows_alter_configs(tmp_path: Path) -> None:
    authority, other = Authority(), Authority("Another authority")
    (tmp_path / "store.pem").write_text(authority.identity("node").pem())
    (tmp_path / "trust.pem").write_text(authority.pem + other.pem)
    (tmp_path / "new.pem").write_text(other.identity("node-2").pem())
    clients, controllers = (f"127.0.0.1:{port}" for port in FreePorts().take(2))
    at = {"CLIENTS": clients, "CONTROLLER": controllers}
    nodes: list[NodeProcess] = []

    def issuer() -> str:
        context = ssl.create_default_context(cafile=str(tmp_path / "trust.pem"))
        host, _, port = controllers.rpartition(":")
        with (
            socket.create_connection((host, int(port)), 10) as raw,
            context.wrap_socket(raw, server_hostname=host) as secured,
        ):
            return str(secured.getpeercert())

    try:
        for role, node in (("controller", 2), ("broker", 1)):
            folder = tmp_path / role
            nodes.append(NodeProcess(folder, of_role(folder, role, node, at), java=False))
        with connect(clients) as client:
            client.create_topic("before", 1, 1)
            assert "Another authority" not in issuer()
            key = "listener.name.controller.ssl.keystore.location"
            client.call(client.admin.alter_configs(BROKER, "2", {key: str(tmp_path / "new.pem")}))
            wait_for(lambda: "Another authority" in issuer(), "the new certificate")
            client.create_topic("after", 1, 1)
    finally:
        for each in nodes:
            each.stop()
