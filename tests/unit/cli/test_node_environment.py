"""Properties of a node from variables: names, the mounted file, key stores, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.failure import Failure
from barnabas.cli.local.node_environment import ALONE, DATA, METRICS, node_properties

BROKER = {
    "KAFKA_NODE_ID": "7",
    "KAFKA_PROCESS_ROLES": "broker",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka-7:9092,SSL://[2001:db8::7]:9094",
}


def properties(environment: dict[str, str], folder: Path) -> dict[str, str]:
    return node_properties(environment, folder / "server.properties", folder)


def test_underscores_are_dots_underscores_and_dashes(tmp_path: Path) -> None:
    given = {
        "KAFKA_LOG_DIRS": "/a,/b",
        "KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG": "x",
        "KAFKA_MIN___ID": "1",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "PATH": "/bin",
    }
    assert properties(given, tmp_path) == {
        "metrics.listeners": METRICS,
        "log.dirs": "/a,/b",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": "x",
        "min-id": "1",
    }


def test_a_node_without_properties_is_a_cluster_of_its_own(tmp_path: Path) -> None:
    found = properties({"HOME": "/"}, tmp_path)
    assert found == {"metrics.listeners": METRICS, "log.dirs": DATA, **ALONE}


def test_variables_win_over_the_mounted_file(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("node.id=1\nlog.dirs=/mine\n")
    found = properties({"KAFKA_NODE_ID": "2"}, tmp_path)
    assert (found["node.id"], found["log.dirs"]) == ("2", "/mine")


def test_a_broker_listens_on_every_address_of_its_advertised_ports(tmp_path: Path) -> None:
    (tmp_path / "k.p12").write_text("")
    (tmp_path / "secret").write_text("secret\n")
    stores = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "k.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "secret",
        "KAFKA_SSL_KEY_CREDENTIALS": "secret",
    }
    found = properties({**BROKER, **stores}, tmp_path)
    assert found["listeners"] == "PLAINTEXT://0.0.0.0:9092,SSL://0.0.0.0:9094"
    assert found["ssl.keystore.location"] == str(tmp_path / "k.p12")
    assert found["ssl.keystore.password"] == found["ssl.key.password"] == "secret"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"KAFKA_SSL_KEYSTORE_FILENAME": "gone.p12"}, "gone.p12 does not exist"),
        ({"KAFKA_PROCESS_ROLES": "controller"}, "is for brokers"),
        ({"KAFKA_OPTS": "-Djava.security.auth.login.config=/j"}, "names a JAAS file"),
    ],
)
def test_a_contradiction_is_refused_with_a_sentence(
    given: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(Failure, match=sentence):
        properties({**BROKER, **given}, tmp_path)
