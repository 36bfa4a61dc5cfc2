"""Profiles of a file of client properties: which keys a command takes, and where the cluster is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.connection.connect import command_config, find_bootstrap
from barnabas.cli.connection.variables import BOOTSTRAP, COMMAND_CONFIG, PROFILE
from barnabas.cli.failure import Failure
from barnabas.cli.main import take_options
from barnabas.cli.profiles.named import UnknownProfile, names_of, of_profile
from barnabas.config.definition import ConfigError
from barnabas.config.providers import ENVIRONMENT
from barnabas.host.secrets.config_files import security_of

GIVEN = {
    "ssl.truststore.location": "ca.pem",
    "security.protocol": "PLAINTEXT",
    "bootstrap.servers": "here:1",
    "profile.test.bootstrap.servers": "test:1",
    "profile.live.security.protocol": "SASL_SSL",
    "profile.live.bootstrap.servers": "live:1",
}
FILE = "".join(f"{key}={value}\n" for key, value in GIVEN.items())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that ``--command-config`` names."""
    for name in (COMMAND_CONFIG, PROFILE, BOOTSTRAP):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "clients.properties"
    file.write_text(FILE)
    monkeypatch.setenv(COMMAND_CONFIG, str(file))
    yield file


def test_a_profiles_keys_win_over_the_plain_ones() -> None:
    found = of_profile(GIVEN, "live")
    assert found == {
        "ssl.truststore.location": "ca.pem",
        "security.protocol": "SASL_SSL",
        "bootstrap.servers": "live:1",
    }
    assert of_profile(GIVEN, "test")["security.protocol"] == "PLAINTEXT"


def test_the_plain_keys_hold_without_a_profile() -> None:
    assert of_profile(GIVEN)["bootstrap.servers"] == "here:1"
    assert not any(key.startswith("profile") for key in of_profile(GIVEN | {"profile": "test"}))


def test_the_file_may_choose_a_profile_and_the_command_another() -> None:
    chosen = GIVEN | {"profile": "test"}
    assert of_profile(chosen)["bootstrap.servers"] == "test:1"
    assert of_profile(chosen, "live")["bootstrap.servers"] == "live:1"


def test_variables_are_resolved_in_the_chosen_profile_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/security.md: of another profile's secret no provider is asked."""
    monkeypatch.setenv("TEST_PASSWORD", "hidden")
    monkeypatch.delenv("LIVE_PASSWORD", raising=False)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = module + ' required username="me" password="${env:%s}";'
    given = GIVEN | {
        "config.providers": "env",
        "config.providers.env.class": ENVIRONMENT,
        "sasl.mechanism": "SCRAM-SHA-512",
        "profile.test.security.protocol": "SASL_PLAINTEXT",
        "profile.test.sasl.jaas.config": login % "TEST_PASSWORD",
        "profile.live.sasl.jaas.config": login % "LIVE_PASSWORD",
    }
    sasl = security_of(of_profile(given, "test")).sasl
    assert sasl is not None and sasl.password == "hidden"
    with pytest.raises(ConfigError):
        security_of(of_profile(given, "live"))


def test_an_unknown_profile_is_refused_with_those_that_there_are() -> None:
    assert names_of(GIVEN) == ["live", "test"]
    with pytest.raises(UnknownProfile, match="no profile 'lives': it has live, test"):
        of_profile(GIVEN, "lives")
    with pytest.raises(UnknownProfile, match="it has none"):
        of_profile({}, "live")


def test_a_profile_says_where_the_cluster_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_bootstrap(None, None) == "here:1"
    monkeypatch.setenv(PROFILE, "live")
    assert find_bootstrap(None, None) == "live:1"
    assert find_bootstrap("given:1", None) == "given:1"
    monkeypatch.setenv(BOOTSTRAP, "variable:1")
    assert find_bootstrap(None, None) == "variable:1"


def test_a_profile_that_is_not_there_is_wrong_usage(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE, "none")
    with pytest.raises(Failure, match=f"{file.name}: there is no profile 'none'"):
        command_config()
    monkeypatch.delenv(COMMAND_CONFIG)
    with pytest.raises(Failure, match="--profile names a profile of a file"):
        command_config()


def test_the_options_may_be_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (COMMAND_CONFIG, PROFILE):
        monkeypatch.setenv(name, "before")
    left = take_options(["topics", "--profile", "live", "list", "--command-config=f", "--json"])
    assert left == ["topics", "list", "--json"]
    assert (os.environ[COMMAND_CONFIG], os.environ[PROFILE]) == ("f", "live")


def test_a_file_may_be_given_as_config_beside_those_of_a_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(COMMAND_CONFIG, "before")
    topic = ["topics", "create", "t", "--config", "retention.ms=1", "-c", "a=b"]
    assert take_options([*topic, "--config", "client.properties"]) == topic
    assert os.environ[COMMAND_CONFIG] == "client.properties"
    assert take_options([*topic, "--config=k=v", "--config=other"]) == [*topic, "--config=k=v"]
    assert os.environ[COMMAND_CONFIG] == "other"
