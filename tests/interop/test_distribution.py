"""The wheel in fresh environments: alone it serves, and each extra brings what it is for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.interop.umask import umask
from tools import distribution

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
USES = {
    "fast": "import barnabas.record.columnar",
    "telemetry": "import opentelemetry.proto.metrics.v1.metrics_pb2",
    "otel": "import opentelemetry.sdk.metrics",
    "security": "import jwt, cryptography.x509",
    "zookeeper": "import barnabas.host.zookeeper.sessions",
    "spark": "import pyspark, barnabas.pipeline",
    "connect": "import pyspark.sql.connect.session, barnabas.pipeline",
    "formats": "import fastavro, google.protobuf",
    "tables": "import deltalake, pyiceberg.catalog.sql",
    "console": "import barnabas.console.application",
}
"""Each extra: a statement that works with it and not without it."""
IN_ONE_SENTENCE = {
    "console": ["console", "--bootstrap", "127.0.0.1:1"],
    "spark": ["pipeline", "validate", "job.toml"],
}
"""Commands that need an extra, and say so where it is missing."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh build."""
    folder = tmp_path_factory.mktemp("dist")
    programs = distribution.programs(ROOT / "build" / "release")
    distribution.build(folder, programs)
    again = tmp_path_factory.mktemp("again")
    with umask(0o077):
        distribution.build(again, programs)
    for path in folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
    return folder


@pytest.fixture(scope="module")
def alone(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment with the wheel and no extra."""
    return install(built, tmp_path_factory.mktemp("alone"))


def install(built: Path, folder: Path, extra: str = "") -> Path:
    venv.create(folder, with_pip=True)
    [wheel] = built.glob("*.whl")
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", wanted]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return folder / "bin"


def test_the_wheel_alone_serves_a_cluster(alone: Path, tmp_path: Path) -> None:
    up = subprocess.Popen(
        [alone / "barnabas", "up", "--nodes", "1", "--ephemeral"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
    )
    assert up.stdin is not None
    assert up.stdout is not None
    lines = iter(up.stdout.readline, "")
    bootstrap = next(line for line in lines if line.startswith("bootstrap: ")).split()[1]
    at = ["--bootstrap", bootstrap]
    barnabas = alone / "barnabas"
    subprocess.run([barnabas, "topics", "create", "t", *at], check=True, cwd=tmp_path)
    subprocess.run([barnabas, "produce", "t", *at], input="a\nb\n", text=True, check=True)
    read = subprocess.run(
        [barnabas, "consume", "t", "--exit", *at], capture_output=True, text=True, check=True
    )
    assert read.stdout.split() == ["a", "b"]
    up.stdin.close()
    assert up.wait(30) == 0
    up.stdout.close()


@pytest.mark.parametrize("extra", sorted(IN_ONE_SENTENCE))
def test_a_command_without_its_extra_says_so_in_one_sentence(
    extra: str, alone: Path, tmp_path: Path
) -> None:
    (tmp_path / "job.toml").write_text("")
    command = [str(alone / "barnabas"), *IN_ONE_SENTENCE[extra]]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert said.returncode != 0
    assert f"barnabas[{extra}]" in said.stderr.replace("\n", "")
    assert "Traceback" not in said.stderr


def test_each_extra_has_a_use() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(USES) == set(extras) - {"dev"}


@pytest.mark.parametrize("extra", sorted(USES))
def test_an_extra_brings_what_it_is_for(
    extra: str, alone: Path, built: Path, tmp_path: Path
) -> None:
    without = subprocess.run(
        [alone / "python", "-c", USES[extra]], capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError" in without.stderr, without.stderr
    with_it = install(built, tmp_path / "with", extra)
    subprocess.run([with_it / "python", "-c", USES[extra]], check=True)
    subprocess.run([with_it / "python", "-m", "pip", "check"], check=True)
