"""``barnabas profiles`` and when its file is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.connection.connect import command_config, find_bootstrap, registry_of
from barnabas.cli.connection.variables import BOOTSTRAP, COMMAND_CONFIG, PROFILE
from barnabas.cli.failure import Failure
from barnabas.cli.main import main
from barnabas.cli.profiles.own_file import own_file, read_own, with_profile
from barnabas.host.secrets.config_files import security_of
from tests.json_shapes import assert_documented


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (COMMAND_CONFIG, PROFILE, BOOTSTRAP):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_profile_is_made_listed_used_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "create", "test", "-b", "test:1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert_documented(["profiles", "create"], made)
    assert made == {"name": "test", "file": str(own_file())}
    assert main(["profiles", "create", "live", "-b", "live:1,live:2", "--use"]) == 0
    assert own_file().stat().st_mode & 0o777 == 0o600
    assert own_file().parent.stat().st_mode & 0o777 == 0o700
    capsys.readouterr()
    assert main(["profiles", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["bootstrap"], row["is_used"]) for row in rows] == [
        ("live", "live:1,live:2", True),
        ("test", "test:1", False),
    ]
    assert find_bootstrap(None, None) == "live:1,live:2"
    for verb in ("use", "delete"):
        if verb == "delete":
            assert find_bootstrap(None, None) == "test:1"
        assert main(["profiles", verb, "test", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert_documented(["profiles", verb], told)
        assert told == {"name": "test"}
    assert list(read_own()) == ["profile.live.bootstrap.servers"]
    assert main(["profiles", "use", "tset"]) == 2
    assert "there is no profile 'tset': there are live" in capsys.readouterr().err


def test_a_profile_that_is_made_again_replaces_the_old_one() -> None:
    assert main(["profiles", "create", "a", "-b", "h:1", "--ca", "ca.pem", "--use"]) == 0
    assert main(["profiles", "create", "a", "-b", "h:2"]) == 0
    assert read_own() == {"profile": "a", "profile.a.bootstrap.servers": "h:2"}


@pytest.mark.parametrize("by", ["file", "variable"])
def test_a_password_stays_in_its_file_or_variable(
    by: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "secret").write_text("hidden")
    monkeypatch.setenv("SECRET", "hidden")
    where = ["--password-file", "secret"] if by == "file" else ["--password-env", "SECRET"]
    words = ["profiles", "create", "live", "-b", "h:1", "--user", "me", *where]
    assert main(words) == 0
    assert "hidden" not in own_file().read_text()
    monkeypatch.setenv(PROFILE, "live")
    sasl = security_of(command_config()).sasl
    assert sasl is not None and (sasl.user, sasl.password) == ("me", "hidden")


def test_a_profile_begins_with_a_file_of_properties(home: Path) -> None:
    (home / "client.properties").write_text("bootstrap.servers=h:1\nsecurity.protocol=SSL\n")
    words = ["profiles", "create", "x", "--properties", "client.properties", "--set", "client.id=a"]
    assert main([*words, "--schema-registry", "http://r"]) == 0
    assert with_profile({}, "x", {"a": "b"}) == {"profile.x.a": "b"}
    assert read_own() == with_profile(
        {},
        "x",
        {
            "bootstrap.servers": "h:1",
            "security.protocol": "SSL",
            "schema.registry.url": "http://r",
            "client.id": "a",
        },
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "say where the cluster is"),
        (["-b", "h"], "a bootstrap server is host:port"),
        (["-b", "h:1", "--password-env", "X"], "a password needs --user"),
        (["-b", "h:1", "--user", 'a"b'], "no quotation mark"),
        (["-b", "h:1", "--user", "a", "--mechanism", "GSSAPI"], "--mechanism is one of"),
        (["-b", "h:1", "--set", "x"], "--set takes KEY=VALUE"),
        (["-b", "h:1", "--properties", "none"], "No such file"),
    ],
)
def test_a_wrong_profile_is_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profiles", "create", "x", *words]) == 2
    assert sentence in capsys.readouterr().err and not own_file().exists()
    assert main(["profiles", "create", "a.b", "-b", "h:1"]) == 2


def test_a_used_profile_says_nothing_about_another_cluster(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["profiles", "create", "live", "-b", "l:1", "--user", "me", "--use"]) == 0
    assert command_config()["security.protocol"] == "SASL_PLAINTEXT"
    assert command_config(None, "other:1") == {} == command_config(home)
    monkeypatch.setenv(BOOTSTRAP, "other:1")
    assert command_config() == {} and find_bootstrap(None, None) == "other:1"
    monkeypatch.setenv(PROFILE, "live")
    assert command_config(None, "other:1")["security.protocol"] == "SASL_PLAINTEXT"


def test_a_profiles_registry_is_used_where_no_other_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAIR", "ann:hush")
    words = ["profiles", "create", "test", "-b", "h:1", "--schema-registry", "http://u:pw@r:8081/"]
    env = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    providers = ["config.providers=env", f"config.providers.env.class={env}"]
    user = "basic.auth.user.info=${env:PAIR}"
    assert main([*words, *(word for pair in (*providers, user) for word in ("--set", pair))]) == 0
    monkeypatch.setenv(PROFILE, "test")
    properties = command_config()
    assert registry_of(None, properties) == ("http://u:pw@r:8081", "ann", "hush")
    assert registry_of("https://other", properties) == ("https://other", "ann", "hush")
    assert registry_of("", properties) is None and registry_of(None, {}) is None
    with pytest.raises(Failure, match="http or https address"):
        registry_of("ftp://r", {})
    capsys.readouterr()
    assert main(["profiles", "list", "--json"]) == 0
    assert "pw" not in capsys.readouterr().out
