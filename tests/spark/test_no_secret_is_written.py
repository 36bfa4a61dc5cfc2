"""Every secret of a cluster is looked for in everything that was written while the cluster was used.

Secrets may be where they are kept: the folder ``security``, the nodes' and clients' properties files, and the
metadata log with its snapshots, which have credentials and sensitive configurations as Apache Kafka's have.
No other file, output of a command, exception, plan or message may have one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from cryptography.hazmat.primitives import serialization

from barnabas.client.delegation_tokens import create_token, list_tokens
from barnabas.config.properties import format_properties, parse_properties
from barnabas.config.providers import FILE
from barnabas.host.client import connect
from barnabas.pipeline.options import cluster_options
from barnabas.testing.cluster import Cluster
from tests.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long]
WRONG, NEW_USER, KEY, STORE, UNKNOWN, PROVIDED = (
    f"geheim{number}-{number * 7_919:06d}-Zq" for number in range(1, 7)
)
"""A wrong password, an added user's, of a private key, of a trust store by AlterConfigs, of a key that no
table has, and one that a provider gives."""
LISTENER = "listener.name.sasl_ssl."
KEPT_IN = ("security", "client.properties", "user.properties", "server.properties", "given")
"""Files and folders that are there to keep secrets."""


class Said:
    """All that commands and exceptions said, by what was done."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, what: str, text: object) -> None:
        self.texts[f"{len(self.texts)} {what}"] = str(text)

    def barnabas(self, *arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", *arguments],
            capture_output=True, text=True, timeout=90, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        self.add(" ".join(arguments), done.stdout + done.stderr)
        return done.stdout

    @contextlib.contextmanager
    def failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, what it says is looked at
            chain: BaseException | None = error
            while chain is not None:
                self.add(what, f"{chain!r} {chain}")
                chain = chain.__cause__ or chain.__context__
        else:
            raise AssertionError(f"{what} did not fail")


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def cluster(provider: IdentityProvider) -> Iterator[Cluster]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "ssl.key.password": KEY,
        "metadata.log.max.snapshot.interval.ms": "2000",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BARNABAS_LOG_LEVEL", "debug")
        with Cluster(nodes=2, settings=settings, secure=True) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def said(cluster: Cluster, provider: IdentityProvider) -> Said:
    """What there is after everything was done."""
    said = Said()
    encrypt_a_key(cluster)
    administer(cluster, said)
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        come_with_a_wrong_password(cluster, said, mechanism)
    come_with_tokens(cluster, provider, said)
    come_with_delegation_tokens(cluster, said)
    start_with_wrong_files(cluster, said)
    cluster.kill(cluster.node_ids[0])
    cluster.restart(cluster.node_ids[0])
    describe(cluster, said)
    return said


def data(cluster: Cluster) -> Path:
    return cluster.directory / "cluster"


def encrypt_a_key(cluster: Cluster) -> None:
    """Give node 1 its key encrypted; running nodes take it as the file changes."""
    file = data(cluster) / "security/node-1.pem"
    text = file.read_bytes()
    key = serialization.load_pem_private_key(text, None)
    how = serialization.BestAvailableEncryption(KEY.encode())
    form = serialization.PrivateFormat.PKCS8
    encrypted = key.private_bytes(serialization.Encoding.PEM, form, how)
    draft = file.with_suffix(".new")
    draft.write_bytes(encrypted + text[text.index(b"-----BEGIN CERTIFICATE") :])
    draft.replace(file)


def administer(cluster: Cluster, said: Said) -> None:
    at = ("--data", str(data(cluster)))
    said.barnabas("users", "add", "carol", "--password-env", "CAROLS", *at, CAROLS=NEW_USER)
    said.barnabas("users", "list", *at)
    for key, value in (("ssl.truststore.password", STORE), ("ssl.key.password", KEY)):
        said.barnabas("configs", "alter", "--broker", "1", "--set", f"{LISTENER}{key}={value}", *at)
    said.barnabas("configs", "alter", "--broker", "1", "--set", f"my.vault.key={UNKNOWN}", *at)
    said.barnabas("topics", "create", "events", "-p", "2", "-r", "2", *at)


def properties_with(cluster: Cluster, mechanism: str, user: str, password: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security." + (
        "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    )
    login = f'{module} required username="{user}" password="{password}";'
    return cluster.client_properties | {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def come_with_a_wrong_password(cluster: Cluster, said: Said, mechanism: str) -> None:
    properties = properties_with(cluster, mechanism, "carol", WRONG)
    refused = said.failing(f"{mechanism} with a wrong password")
    with refused, connect(cluster.bootstrap, properties=properties) as client:
        said.add("client", repr(client.client))
        client.topics()
    given = data(cluster) / "given"
    given.mkdir(exist_ok=True)
    file = given / "client.properties"
    file.write_text(format_properties(properties))
    said.barnabas("topics", "list", "--bootstrap", cluster.bootstrap, "--command-config", str(file))
    if mechanism != "PLAIN":
        good = properties_with(cluster, mechanism, "carol", NEW_USER)
        with connect(cluster.bootstrap, properties=good) as client, said.failing("a topic again"):
            client.create_topic("events", 2, 2)


def come_with_tokens(cluster: Cluster, provider: IdentityProvider, said: Said) -> None:
    start = "sasl.oauthbearer.client.credentials.client."
    kept = {k: v for k, v in cluster.client_properties.items() if not k.startswith("sasl.")}
    properties = kept | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        start + "id": CLIENT,
        start + "secret": SECRET,
    }
    with connect(cluster.bootstrap, properties=properties) as client:
        client.topics()
        said.add("client", repr(client.client))
    with (
        said.failing("a wrong client secret"),
        connect(cluster.bootstrap, properties=properties | {start + "secret": WRONG}) as client,
    ):
        client.topics()
    elsewhere = provider.token(aud="elsewhere")
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(data(cluster) / "security/ca.pem"),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (elsewhere, time.time() + 60),
        }
    )
    with said.failing("a token for another audience"):
        producer.list_topics(timeout=3)
    TOKENS.append(elsewhere)


TOKENS: list[str] = []
"""Bearer tokens, and delegation tokens' HMACs as clients write them and as bytes."""


def come_with_delegation_tokens(cluster: Cluster, said: Said) -> None:
    """One is used, renewed and expired; a client comes with its id and another password, and one too late."""
    at = ("--data", str(data(cluster)))
    given = data(cluster) / "given"
    files = [given / "token-1.properties", given / "token-2.properties"]
    for file in files:
        said.barnabas("tokens", "create", "--renewer", "User:user", "--write", str(file), *at)
    logins = [parse_properties(file.read_text()) for file in files]
    for login in logins:
        TOKENS.extend(hmac_of(login))
    with connect(cluster.bootstrap, properties=logins[0]) as client:
        client.topics()
        said.add("a client with a token", repr(client.client))
        with said.failing("a token by a token"):
            client.call(create_token(client.client))
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        said.add("tokens", client.call(list_tokens(client.client)))
    jaas = logins[0]["sasl.jaas.config"]
    wrong = logins[0] | {"sasl.jaas.config": jaas.replace(hmac_of(logins[0])[0], WRONG)}
    refused = said.failing("a token's id with another password")
    with refused, connect(cluster.bootstrap, properties=wrong) as client:
        client.topics()
    said.barnabas("tokens", "list", *at)
    found = json.loads(said.barnabas("tokens", "list", "--json", *at))
    said.barnabas("tokens", "renew", found[0]["token_id"], "--for", "1h", *at)
    ended = re.search(r'username="([^"]+)"', logins[1]["sasl.jaas.config"])
    assert ended is not None
    said.barnabas("tokens", "expire", ended[1], "--yes", *at)
    said.barnabas(
        "topics", "list", "--bootstrap", cluster.bootstrap, "--command-config", str(files[1])
    )


def hmac_of(properties: dict[str, str]) -> tuple[str, str]:
    """A token's HMAC: in base 64, as clients have it, and byte for byte."""
    found = re.search(r'password="([^"]+)"', properties["sasl.jaas.config"])
    assert found is not None
    return found[1], base64.b64decode(found[1]).decode("latin-1")


def start_with_wrong_files(cluster: Cluster, said: Said) -> None:
    """Nodes that refuse to start, and say why."""
    given = data(cluster) / "given"
    (given / "vault.properties").write_text(f"password={PROVIDED}\n")
    values = parse_properties((data(cluster) / "node-1/server.properties").read_text())
    providers = {"config.providers": "file", "config.providers.file.class": FILE}
    variable = f"${{file:{given}/vault.properties:password}}"
    jaas = f"{LISTENER}plain.sasl.jaas.config"
    for number, wrong in enumerate(
        (
            {"num.partitions": variable},
            {"ssl.keystore.type": variable},
            {"listeners": variable},
            {"ssl.key.password": WRONG},
            {jaas: f"{values[jaas].removesuffix(';')} {PROVIDED}"},
            {jaas: f'a.b.OtherModule required password="{PROVIDED}";'},
            {"super.users": variable},
        )
    ):
        file = given / f"wrong-{number}.properties"
        file.write_text(format_properties(values | providers | wrong))
        said.barnabas("storage", "info", str(file))
        said.barnabas("node", "start", str(file))
    said.barnabas(
        "certificates", "check", str(data(cluster) / "security/node-1.pem"),
        "--password-env", "KEYS", KEYS=WRONG,
    )  # fmt: skip


def describe(cluster: Cluster, said: Said) -> None:
    at = ("--data", str(data(cluster)))
    for arguments in (
        ("configs", "describe", "--broker", "1"),
        ("configs", "describe", "--broker", "1", "--json"),
        ("cluster", "describe", "--json"),
        ("cluster", "events"),
        ("cluster", "events", "--json"),
        ("cluster", "metrics"),
        ("cluster", "metrics", "--broker", "1", "--json"),
        ("quorum", "describe", "--metrics"),
        ("certificates", "list"),
        ("acls", "list"),
        ("users", "list", "--json"),
        ("metadata", "cat", "/"),
        ("metadata", "tree", "/"),
    ):
        said.barnabas(*arguments, *at)
    log = next(data(cluster).rglob("__cluster_metadata-0"))
    said.barnabas("log", "events", str(log))
    said.barnabas("log", "tree", str(log))
    for file in sorted((*log.glob("*.log"), *log.glob("*.checkpoint"))):
        dumped = said.barnabas("log", "dump", "--records", str(file))
        assert dumped or not file.stat().st_size
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.topics()
        said.add("DescribeConfigs", client.call(client.admin.describe_configs(4, "1")))


def secrets_of(cluster: Cluster) -> dict[str, str]:
    found = json.loads((data(cluster) / "security/passwords.json").read_text())
    secrets = {f"password of {name}": password for name, password in found.items()}
    secrets["the key of tokens"] = (data(cluster) / "security/token-key").read_text().strip()
    secrets |= {
        "a wrong password": WRONG,
        "carol's password": NEW_USER,
        "a key's password": KEY,
        "a store's password": STORE,
        "an unknown key's value": UNKNOWN,
        "what a provider gave": PROVIDED,
        "a client's secret": SECRET,
    }
    return secrets | {f"token {number}": token for number, token in enumerate(TOKENS)}


def shown_in(text: str, secrets: dict[str, str]) -> list[str]:
    return [name for name, secret in secrets.items() if secret in text]


def test_no_output_has_a_secret(cluster: Cluster, said: Said) -> None:
    secrets = secrets_of(cluster)
    found = {what: names for what, text in said.texts.items() if (names := shown_in(text, secrets))}
    assert not found


def test_no_output_has_the_keys_of_a_password(cluster: Cluster, said: Said) -> None:
    """What the metadata keep of a password is enough to come as a server, or to try passwords."""
    for what, text in said.texts.items():
        for field in ("stored_key", "server_key", "StoredKey", "ServerKey", "salt"):
            for line in text.splitlines():
                if re.search(rf"\b{field}\b['\": =]", line):
                    assert re.search(rf"\b{field}\b['\": =]+\(secret\)", line), (what, line)


def test_no_file_has_a_secret(cluster: Cluster, said: Said) -> None:
    secrets, found = secrets_of(cluster), {}
    searched = 0
    for file in cluster.directory.rglob("*"):
        parts = file.relative_to(cluster.directory).parts
        if not file.is_file() or set(parts) & {*KEPT_IN, "__cluster_metadata-0"}:
            continue
        searched += 1
        if names := shown_in(file.read_bytes().decode("latin-1"), secrets):
            found[str(file)] = names
    assert searched > 10
    assert not found


def test_sparks_plans_and_exceptions_have_no_secret(
    cluster: Cluster,
    said: Said,
    spark: SparkSession,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def options(properties: dict[str, str]) -> dict[str, str]:
        given = {f"kafka.{key}": value for key, value in properties.items()}
        return {"kafka.bootstrap.servers": cluster.bootstrap, **given}

    good = options(cluster.client_properties)
    rows = spark.range(100).selectExpr("cast(id as string) as value")
    rows.write.format("barnabas").mode("append").options(**good, topic="events").save()
    frame = spark.read.format("barnabas").options(**good, subscribe="events").load()
    frame.explain(True)
    frame.explain("formatted")
    assert frame.count() == 100
    query = (
        spark.readStream.format("barnabas").options(**good, subscribe="events")
        .option("startingOffsets", "earliest").load().select("value")
        .writeStream.format("barnabas").options(**good)
        .option("topic", "events").option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    query.explain(True)
    by_token = options(parse_properties((data(cluster) / "given/token-1.properties").read_text()))
    frame = spark.read.format("barnabas").options(**by_token, subscribe="events").load()
    frame.explain(True)
    assert frame.count() >= 200
    shown: list[Any] = [query.lastProgress, query.status, cluster_options(good)]
    wrong = options(properties_with(cluster, "SCRAM-SHA-512", "carol", WRONG))
    spoken = Said()
    with spoken.failing("a wrong password of Spark"):
        spark.read.format("barnabas").options(**wrong, subscribe="events").load().count()
    with spoken.failing("a wrong password of a writer"):
        rows.write.format("barnabas").mode("append").options(**wrong, topic="events").save()
    with spoken.failing("an option that is none"):
        bad = good | {"kafka.sasl.jaas.config": f"nonsense {WRONG}"}
        spark.read.format("barnabas").options(**bad, subscribe="events").load().count()
    secrets = secrets_of(cluster)
    captured = capfd.readouterr()
    text = "\n".join([captured.out, captured.err, *map(repr, shown), *spoken.texts.values()])
    assert "carol" in text or "credentials" in text
    assert not shown_in(text, secrets)
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert not file.is_file() or not shown_in(file.read_text("latin-1"), secrets), file
