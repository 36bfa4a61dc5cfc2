"""Profiles of a file of client properties: which keys a command takes, and where the cluster is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.connection.connect import COMMAND_CONFIG, PROFILE, command_config, find_bootstrap
from barnabas.cli.connection.profiles import UnknownProfile, names_of, of_profile
from barnabas.cli.failure import Failure
from barnabas.cli.main import take_options

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
    for name in (COMMAND_CONFIG, PROFILE, "BARNABAS_BOOTSTRAP"):
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
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", "variable:1")
    assert find_bootstrap(None, None) == "variable:1"


def test_a_profile_that_is_not_there_is_wrong_usage(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE, "none")
    with pytest.raises(Failure, match=f"{file.name}: there is no profile 'none'"):
        command_config()
    monkeypatch.delenv(COMMAND_CONFIG)
    with pytest.raises(Failure, match="--profile is of a file"):
        command_config()


def test_the_options_may_be_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (COMMAND_CONFIG, PROFILE):
        monkeypatch.setenv(name, "before")
    left = take_options(["topics", "--profile", "live", "list", "--command-config=f", "--json"])
    assert left == ["topics", "list", "--json"]
    assert (os.environ[COMMAND_CONFIG], os.environ[PROFILE]) == ("f", "live")
