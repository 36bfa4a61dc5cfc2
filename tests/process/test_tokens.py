"""Delegation tokens of a secure cluster, made on the command line and used by our client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.properties import parse_properties
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.process.launch import barnabas, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
SETTINGS = {"delegation.token.secret.key": "a-key-that-nothing-shows"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, settings=SETTINGS, secure=True) as cluster:
        yield cluster


def test_a_token_is_used_from_a_file_until_it_is_expired(cluster: Cluster, tmp_path: Path) -> None:
    where = ["--data", str(cluster.client_file.parent), "--json"]
    file = tmp_path / "token.properties"
    made = barnabas("tokens", "create", "--renewer", "User:user", "--write", str(file), *where)
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)
    assert (token["owner"], token["renewers"], "hmac" in token) == (
        "User:admin",
        ["User:user"],
        False,
    )
    assert file.stat().st_mode & 0o777 == 0o600
    with connect(cluster.bootstrap, properties=parse_properties(file.read_text())) as client:
        client.create_topic("of-a-token", partitions=1)
        assert client.topic("of-a-token").partitions
    listed = barnabas("tokens", "list", *where)
    assert [row["token_id"] for row in json.loads(listed.stdout)] == [token["token_id"]]
    again = barnabas("--command-config", str(file), "tokens", "create",
                     "--bootstrap", cluster.bootstrap)  # fmt: skip
    assert "not by a token" in again.stderr
    ended = barnabas("tokens", "expire", token["token_id"], "--yes", *where)
    assert ended.returncode == 0, ended.stderr

    def is_refused() -> bool:
        refused = barnabas("--command-config", str(file), "topics", "list",
                           "--bootstrap", cluster.bootstrap)  # fmt: skip
        return "invalid credentials" in refused.stderr

    wait_until(is_refused, "the token is refused")
    assert SETTINGS["delegation.token.secret.key"] not in cluster.log_text(1)
