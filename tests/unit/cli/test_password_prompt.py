"""A client's file that names a user alone: the password is typed, on a real terminal that shows nothing."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.connection import connect
from barnabas.cli.connection.password_prompt import with_password
from barnabas.cli.connection.variables import COMMAND_CONFIG
from barnabas.cli.failure import Failure
from barnabas.security.client_keys import client_security

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OF_ALICE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} username="alice";',
}
PASSWORD = 'open "sesame" \\ now'


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The side of a person; standard input is the other one."""
    person, programs = pty.openpty()
    with os.fdopen(programs, "r") as standard_input:
        monkeypatch.setattr(sys, "stdin", standard_input)
        yield person
    os.close(person)


@pytest.fixture
def typed(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(prompt: str, stream: object = None) -> str:
        os.write(terminal, f"{PASSWORD}\n".encode())
        return sys.stdin.readline().rstrip("\n")

    monkeypatch.setattr("getpass.getpass", read)


@pytest.mark.parametrize(
    "properties",
    [
        OF_ALICE,
        {**OF_ALICE, "sasl.mechanism": "PLAIN",
         "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
                             " username=alice ;"},
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "alice"},
    ],
    ids=["scram", "plain", "of librdkafka"],
)  # fmt: skip
def test_a_typed_password_is_taken(properties: dict[str, str], typed: None) -> None:
    credential = client_security(with_password(properties)).sasl
    assert credential is not None
    assert (credential.user, credential.password) == ("alice", PASSWORD)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"security.protocol": "SSL"},
        {**OF_ALICE, "sasl.jaas.config": f'{SCRAM} username="alice" password="";'},
        {**OF_ALICE, "sasl.jaas.config": f'{SCRAM} username="alice" password="${{env:SECRET}}";'},
        {**OF_ALICE, "sasl.jaas.config": f"{SCRAM} username="},
        {**OF_ALICE, "sasl.mechanism": "OAUTHBEARER"},
    ],
)
def test_nothing_is_asked_where_nothing_is_missing(
    properties: dict[str, str], terminal: int
) -> None:
    assert with_password(properties) == properties


def test_a_missing_password_is_an_error_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in OF_ALICE.items()))
        monkeypatch.setenv(COMMAND_CONFIG, str(file))
        refused = pytest.raises(Failure, match="needs its username and password")
        with refused, connect.cluster("localhost:1", None):
            pass
