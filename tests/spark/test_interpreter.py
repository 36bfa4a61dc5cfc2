"""The format is found where the driver's Python has it, also when Spark's own choice would not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import MakeTopic
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB_S = 300


def bare_environment(directory: Path) -> dict[str, str]:
    """A login's: the PATH has Java and another Python, which lacks every package, and no variable names
    an interpreter."""
    programs = directory / "bin"
    programs.mkdir()
    java = shutil.which("java")
    assert java is not None
    (programs / "java").symlink_to(java)
    other = programs / "python3"
    other.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n'
    )  # -S: without site-packages
    other.chmod(0o755)
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYSPARK", "PYTHON", "SPARK", "VIRTUAL_ENV"))
    }
    return {**environment, "PATH": f"{programs}:/usr/bin:/bin"}


@pytest.mark.parametrize("how", ["import", "register", "session"])
def test_a_program_of_an_environment_that_is_not_activated_finds_the_format(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, how: str
) -> None:
    source, target = make_topic(1), make_topic(1)
    write(bootstrap, source, (b"%d" % n for n in range(10)))
    job = Path(__file__).with_name("plain_job.py")
    done = subprocess.run(
        [sys.executable, str(job), bootstrap, source, target, str(tmp_path), how],
        env=bare_environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(read(bootstrap, target)) == 10
    if how == "session":
        assert not {"log4j", "pandas", "WARN"} & set(re.findall(r"\w+", done.stderr)), done.stderr
    if how == "import":  # its ledger is beside the checkpoint, which has a relative path
        (ledger,) = tmp_path.glob("checkpoint/barnabas/*/committed.json")
        assert json.loads(ledger.read_text())["planned"]


def test_processes_of_a_local_session_load_pyspark_compiled(spark: SparkSession) -> None:
    def origin(_: object) -> str:
        import pyspark.worker

        return str(pyspark.worker.__cached__)

    (file,) = spark.sparkContext.parallelize([0], 1).map(origin).collect()
    assert file.endswith(".pyc")
