"""Variables of configurations, answered by files, folders and the environment (KIP-297, 421, 632, 887)."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.definition import ConfigError
from barnabas.config.providers import DIRECTORY, ENVIRONMENT, FILE, resolve
from barnabas.host.main import load_config
from barnabas.host.secrets.config_files import HostSources, node_config, security_of

SECRET = "geheim-Ωß"
NAMED = {
    "config.providers": "file,dir,env",
    "config.providers.file.class": FILE,
    "config.providers.dir.class": DIRECTORY,
    "config.providers.env.class": ENVIRONMENT,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.properties").write_text(f"password={SECRET}\nnested=${{env:BARNABAS_T}}\n")
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / "deeper").mkdir()
    monkeypatch.setenv("BARNABAS_T", SECRET)
    return tmp_path


def answered(text: str, **more: str) -> str:
    given = NAMED | {f"config.providers.{name}": value for name, value in more.items()}
    return resolve(given | {"x": text}, HostSources()).values["x"]


def test_each_provider_answers_its_variables(folder: Path) -> None:
    assert answered(f"${{file:{folder}/a.properties:password}}") == SECRET
    assert answered(f"${{dir:{folder}:token}}") == SECRET
    assert answered("a ${env:BARNABAS_T} b ${env:BARNABAS_T}") == f"a {SECRET} b {SECRET}"


def test_a_value_that_names_no_provider_stays_as_it_is(folder: Path) -> None:
    for text in ("${other:a:b}", "${alone}", "${unclosed:a", "$1", "{env:BARNABAS_T}"):
        assert answered(text) == text
    alone = resolve({"x": "${env:BARNABAS_T}"}, HostSources())
    assert alone.values == {"x": "${env:BARNABAS_T}"} and not alone.provided


def test_an_answer_is_not_searched_for_variables(folder: Path) -> None:
    assert answered(f"${{file:{folder}/a.properties:nested}}") == "${env:BARNABAS_T}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${file:{}/a.properties:missing}", "its provider has no 'missing'"),
        ("${file:{}/absent:password}", "cannot be read: No such file"),
        ("${file:password}", "needs a path"),
        ("${dir:{}:absent}", "cannot be read: No such file"),
        ("${dir:{}:deeper}", "cannot be read: Is a directory"),
        ("${dir:{}/deeper:../token}", "its provider has no '../token'"),
        ("${env:BARNABAS_ABSENT}", "its provider has no 'BARNABAS_ABSENT'"),
        ("${env:path:BARNABAS_T}", "an environment variable has no path"),
    ],
)
def test_an_unanswered_variable_is_an_error(folder: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        answered(text.replace("{}", str(folder)))
    assert refused.value.key == "x"


def test_paths_beside_the_allowed_ones_are_refused(folder: Path) -> None:
    allowed = {"file.param.allowed.paths": f"{folder}/deeper,{folder}/a.properties"}
    assert answered(f"${{file:{folder}/deeper/../a.properties:password}}", **allowed) == SECRET
    for path in (f"{folder}/token", f"{folder}/deeper/../token", f"{folder}/a.properties2"):
        with pytest.raises(ConfigError, match=r"allowed\.paths do not have it"):
            answered(f"${{file:{path}:password}}", **allowed)
    for wrong in ("deeper", f"{folder}/absent"):
        with pytest.raises(ConfigError, match="absolute and exist"):
            answered("x", **{"dir.param.allowed.paths": wrong})


def test_a_link_leads_out_of_no_allowed_path(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What is read is the path that was compared, where `..` is taken before links are."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "deep").mkdir()
    (outside / "a.properties").write_text("password=another")
    (folder / "deeper/link").symlink_to(outside / "deep")
    allowed = {"file.param.allowed.paths": f"{folder}/deeper"}
    with pytest.raises(ConfigError, match="cannot be read"):
        answered(f"${{file:{folder}/deeper/link/../a.properties:password}}", **allowed)


def test_a_pattern_bounds_the_environment(folder: Path) -> None:
    assert answered("${env:BARNABAS_T}", **{"env.param.allowlist.pattern": "^BARNABAS_"}) == SECRET
    with pytest.raises(ConfigError, match="has no 'BARNABAS_T'"):
        answered("${env:BARNABAS_T}", **{"env.param.allowlist.pattern": "^OTHER_"})
    with pytest.raises(ConfigError, match="a regular expression"):
        answered("x", **{"env.param.allowlist.pattern": "("})


@pytest.mark.parametrize("given", ["", "com.example.VaultProvider"])
def test_another_provider_is_refused_by_name(given: str) -> None:
    with pytest.raises(ConfigError, match="FileConfigProvider"):
        answered("x", **{"file.class": given})


NODE = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


def test_a_nodes_file_has_variables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_D", "/var/lib/events")
    config = node_config(
        NODE + "log.dirs=${env:BARNABAS_D}/log\nssl.key.password=${env:BARNABAS_T}"
    )
    assert config.log_dirs == ("/var/lib/events/log",)
    assert config.text("ssl.key.password") == SECRET
    assert config.unknown == ()


def test_no_error_shows_what_a_provider_gave(folder: Path) -> None:
    file = folder / "node.properties"
    file.write_text(NODE + "num.partitions=${env:BARNABAS_T}")
    with pytest.raises(Exception, match=r"num\.partitions: '\(hidden\)'") as refused:
        load_config(str(file))
    assert SECRET not in str(refused.value) and refused.value.__cause__ is not None
    assert SECRET not in str(refused.value.__cause__)


def test_a_clients_file_has_variables(folder: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    given = NAMED | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="a" password="${{env:BARNABAS_T}}";',
    }
    found = security_of(given)
    assert found.sasl is not None and found.sasl.password == SECRET
    assert SECRET not in repr(found)
