"""A home for a local Spark that lacks pyspark's archive and nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyspark
import pytest

from barnabas.pipeline.workers.compiled_pyspark import HOME, compiled_pyspark, is_local


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_home_has_all_of_spark_but_the_archive() -> None:
    environment: dict[str, str] = {}
    with compiled_pyspark(environment) as has_home:
        assert has_home
        home = Path(environment[HOME])
        installed = Path(pyspark.__file__).parent
        assert (home / "bin" / "spark-submit").samefile(installed / "bin" / "spark-submit")
        assert (home / "jars").samefile(installed / "jars")
        assert not (home / "python").exists()
    assert environment == {}
    with compiled_pyspark(environment):
        assert environment[HOME] == str(home)
    assert len(list(home.parent.iterdir())) == 1


@pytest.mark.parametrize("name", ["SPARK_HOME", "PYSPARK_GATEWAY_PORT"])
def test_a_home_that_is_given_and_a_jvm_that_runs_are_left_alone(name: str) -> None:
    environment = {name: "given"}
    with compiled_pyspark(environment) as has_home:
        assert not has_home
        assert environment == {name: "given"}
    assert environment == {name: "given"}


def test_no_home_is_made_where_no_folder_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no-such-folder")
    environment: dict[str, str] = {}
    with compiled_pyspark(environment) as has_home:
        assert not has_home
        assert environment == {}


def test_only_executors_in_the_drivers_jvm_are_local() -> None:
    assert [is_local(each) for each in ("local", "local[2]", "local-cluster[2,1,512]", "yarn")] == [
        True, True, False, False
    ]  # fmt: skip
