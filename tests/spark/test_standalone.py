"""On a cluster of Spark's own: a worker and the driver are killed in the middle, and each row lands once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.conftest import MakeTopic
from tests.spark.standalone import StandaloneCluster, kill_group, wait_until
from tests.spark.topics import read, write

REPOSITORY = Path(__file__).parents[2]
END_S = 360.0
"""A run waits for a driver, executors and their Python workers, which start beside other work."""


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


class Job:
    """A run of :mod:`tests.spark.cluster_job`, which gets its place as an argument."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, log: Path) -> None:
        self.process = process
        self._control = directory / "control"
        self._log = log

    def held(self, stage: str) -> str:
        """Have a task stay in the middle of `stage`; its working directory when it does."""
        told = self._control / f"held-{stage}"

        def is_held() -> bool:
            assert self.process.poll() is None, self._log.read_text()[-2000:]
            return told.exists()

        wait_until(is_held, f"a task in stage {stage}", END_S)
        found = told.read_text()
        told.unlink()
        return found

    def hold(self, stage: str) -> None:
        (self._control / f"hold-{stage}").touch()

    def failure(self) -> str:
        """What a run that ends with an error says."""
        assert self.process.wait(END_S) != 0
        return self._log.read_text()

    def end(self) -> None:
        assert self.process.wait(END_S) == 0, self._log.read_text()[-2000:]


@contextmanager
def running(
    kind: str, cluster: StandaloneCluster, bootstrap: str, topics: tuple[str, str], directory: Path,
    *more: str, place: str,
) -> Iterator[Job]:  # fmt: skip
    """The job in a working directory of its own; afterwards its driver is gone."""
    folder = directory / place
    folder.mkdir()
    log = folder / "log"
    (directory / "control").mkdir(exist_ok=True)
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster_job", kind, cluster.url, bootstrap, *topics,
             str(directory), *more],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield Job(process, directory, log)
    finally:
        kill_group(process)


def values_in(bootstrap: str, topic: str) -> list[int]:
    return sorted(int(each.value or b"-1") for each in read(bootstrap, topic))


def test_a_stream_survives_a_killed_worker_and_a_driver_that_moves(
    standalone: StandaloneCluster, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topics = make_topic(2), make_topic(3)
    write(bootstrap, topics[0], (b"%d" % n for n in range(3_000)))
    with running("stream", standalone, bootstrap, topics, tmp_path, place="here") as job:
        job.hold("read")
        working_directory = job.held("read")
        standalone.start_worker()
        standalone.kill_worker_of(working_directory)
        job.hold("write")
        job.held("write")
        kill_group(job.process)
    standalone.wait_for_workers(2)
    with running("stream", standalone, bootstrap, topics, tmp_path, place="elsewhere") as job:
        job.end()
    assert values_in(bootstrap, topics[1]) == list(range(3_000))


@pytest.mark.interop
@pytest.mark.long
def test_a_batch_lands_once_while_a_worker_is_killed(
    standalone: StandaloneCluster, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topics = make_topic(2), make_topic(3)
    write(bootstrap, topics[0], (b"%d" % n for n in range(2_000)))
    with running("batch", standalone, bootstrap, topics, tmp_path, place="here") as job:
        job.hold("write")
        working_directory = job.held("write")
        standalone.start_worker()
        standalone.kill_worker_of(working_directory)
        job.end()
    assert values_in(bootstrap, topics[1]) == list(range(2_000))


@pytest.mark.interop
@pytest.mark.long
def test_the_doctor_names_executors_without_the_package(
    standalone: StandaloneCluster, bootstrap: str, tmp_path: Path
) -> None:
    venv.create(tmp_path / "bare")
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "pipeline",
        "doctor",
        "--master",
        standalone.url,
        "--json",
    ]
    command += [
        "--bootstrap-server",
        bootstrap.split(",")[0],
        "--checkpoint",
        f"file://{tmp_path}/shared",
    ]
    for name in ("spark.executor.memory=512m", "spark.driver.host=127.0.0.1"):
        command += ["--conf", name]
    done = subprocess.run(
        command,
        env={**os.environ, "PYSPARK_PYTHON": str(tmp_path / "bare" / "bin" / "python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=END_S,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    found = {each["check"]: each for each in json.loads(done.stdout)}
    executors = {each.split(": ")[0] for each in found if each.startswith("executor on")}
    assert executors
    for each in executors:
        assert not found[f"{each}: barnabas"]["ok"]
        assert "pip install 'barnabas[spark]'" in found[f"{each}: barnabas"]["found"]
        assert found[f"{each}: checkpoint"]["ok"]
        assert f"{each}: cluster" not in found
    assert found["driver: cluster"]["ok"]
    assert not list((tmp_path / "shared").iterdir())


JOB = """
name = "apart"
checkpoint = "file://{directory}/job"
[cluster]
kafka.bootstrap.servers = "{bootstrap}"
[source]
topics = ["{topic}"]
[[sink]]
parquet = "file:///proc/self/cwd/table"
"""


@pytest.mark.interop
@pytest.mark.long
@pytest.mark.timeout(2 * END_S + 80)  # two runs, one after the other
def test_places_that_are_not_shared_are_named_with_an_executor(
    standalone: StandaloneCluster, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A path below the working directory is another one for each process."""
    topics = make_topic(2), make_topic(1)
    write(bootstrap, topics[0], (b"%d" % n for n in range(20)))
    apart = "file:///proc/self/cwd/staging"
    with running("stream", standalone, bootstrap, topics, tmp_path, apart, place="here") as job:
        said = job.failure()
    assert re.search(r"executor on \S+ \(working directory \S+\) has staged rows in", said)
    assert f"the driver does not find them below stagingLocation {apart}" in said
    assert not read(bootstrap, topics[1])
    file = tmp_path / "apart.toml"
    file.write_text(JOB.format(directory=tmp_path, bootstrap=bootstrap, topic=topics[0]))
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", "run", str(file), "--available-now",
         "--master", standalone.url, "--conf", "spark.executor.memory=512m",
         "--conf", "spark.driver.host=127.0.0.1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=END_S,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(
        r"executor on \S+ \(working directory \S+\) and the driver do not share /proc/self/cwd/table",
        done.stdout + done.stderr,
    )
