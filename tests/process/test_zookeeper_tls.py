"""A broker whose ensemble is reached by TLS alone, with certificates on both sides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from barnabas.cli.local.certificate_authority import Authority
from barnabas.cli.local.free_ports import FreePorts
from barnabas.cli.local.zookeeper_servers import ZooKeeperMissing, ZooKeeperServers
from tests.process.launch import barnabas, wait_until

pytestmark = [pytest.mark.process, pytest.mark.java, pytest.mark.long, pytest.mark.slow]


class SecureEnsemble:
    """A server whose secure port asks for a client's certificate, and a client's files."""

    def __init__(self, home: Path) -> None:
        authority = Authority()
        self.home = home
        for name in ("server", "client"):
            identity = authority.identity(name)
            (home / f"{name}.pem").write_text(identity.key_pem() + identity.certificate_pem)
        (home / "trusted.pem").write_text(authority.pem)
        (self.port, self.broker_port) = FreePorts().take(2)
        self.servers = ZooKeeperServers(
            home / "zk",
            settings=[
                f"secureClientPort={self.port}",
                "secureClientPortAddress=127.0.0.1",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.clientAuth=need",
                f"ssl.keyStore.location={home / 'server.pem'}",
                f"ssl.trustStore.location={home / 'trusted.pem'}",
            ],
        )

    def properties(self, **keys: str) -> Path:
        """Of broker 1; an empty value takes a key out."""
        values = {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{self.port}/tls",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self.home / "client.pem"),
            "zookeeper.ssl.truststore.location": str(self.home / "trusted.pem"),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.broker_port}",
            "log.dirs": str(self.home / "data"),
            "offsets.topic.replication.factor": "1",
            **keys,
        }
        file = self.home / "broker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in values.items() if value))
        return file


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[SecureEnsemble]:
    try:
        made = SecureEnsemble(tmp_path)
    except ZooKeeperMissing as missing:
        pytest.skip(str(missing))
    with made.servers as servers:
        root = KazooClient(hosts=servers.connect)
        root.start()
        root.ensure_path("/tls")
        root.stop()
        root.close()
        yield made


def started(file: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "barnabas", "node", "start", str(file)]
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def test_a_broker_serves_on_an_ensemble_that_asks_for_certificates(
    ensemble: SecureEnsemble, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    bootstrap = f"127.0.0.1:{ensemble.broker_port}"
    broker = started(ensemble.properties(), log)
    try:
        wait_until(lambda: "broker.ready" in log.read_text(), "the broker is ready")
        made = barnabas("topics", "create", "t", "-b", bootstrap)
        assert made.returncode == 0, made.stderr
    finally:
        broker.kill()
        broker.wait()

    other = Authority("another one").identity("client")
    strange = tmp_path / "strange.pem"
    strange.write_text(other.key_pem() + other.certificate_pem)
    broker = started(ensemble.properties(**{"zookeeper.ssl.keystore.location": str(strange)}), log)
    try:
        wait_until(lambda: "zookeeper.connection" in log.read_text(), "it is refused")
        assert "broker.registered" not in log.read_text()
    finally:
        broker.kill()
        broker.wait()


def test_znodes_of_a_secured_cluster_are_changed_by_its_brokers_alone(
    ensemble: SecureEnsemble, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    bootstrap = f"127.0.0.1:{ensemble.broker_port}"
    keys = {"zookeeper.set.acl": "true", "delegation.token.secret.key": "k"}
    broker = started(ensemble.properties(**keys), log)
    client = KazooClient(hosts=f"{ensemble.servers.connect}/tls")
    try:
        wait_until(lambda: "broker.ready" in log.read_text(), "the broker is ready")
        for command in (
            ("topics", "create", "t"),
            ("configs", "alter", "--topic", "t", "--set", "retention.ms=3600000"),
            ("topics", "delete", "t", "--yes"),
        ):
            done = barnabas(*command, "-b", bootstrap)
            assert done.returncode == 0, done.stderr
        client.start()
        assert client.get("/controller_epoch")[0] == b"1"
        for path in ("/controller_epoch", "/brokers/topics", "/config/users"):
            with pytest.raises(NoAuthError):
                client.create(f"{path}/x", b"")
        for path in ("/config/users", "/config/brokers", "/delegation_token/tokens"):
            with pytest.raises(NoAuthError):
                client.get_children(path)
        client.create("/consumers/x", b"")
    finally:
        client.stop()
        client.close()
        broker.kill()
        broker.wait()


def test_a_java_keystore_is_refused_with_the_line_that_converts_it(
    ensemble: SecureEnsemble, tmp_path: Path
) -> None:
    file = ensemble.properties(**{"zookeeper.ssl.keystore.location": str(tmp_path / "a.jks")})
    (tmp_path / "a.jks").write_bytes(b"\xfe\xed\xfe\xed")
    refused = barnabas("node", "start", str(file))
    assert refused.returncode != 0
    assert "keytool -importkeystore" in refused.stderr
