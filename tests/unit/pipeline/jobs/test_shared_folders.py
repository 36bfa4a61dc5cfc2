"""Before a job writes, each executor proves that it shares the folders with the driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.jobs.job_file import Job, Sink, Source
from barnabas.pipeline.jobs.job_run import folders_of
from barnabas.pipeline.jobs.query_run import QueryRun
from barnabas.pipeline.jobs.shared_folders import ATTEMPTS_MAX, SharedFolders
from tests.unit.pipeline.jobs.arrow_frame import frame
from tests.unit.pipeline.jobs.table_kinds import NAME, catalog_of, rows_of


class Session:
    """What a Spark session is asked for. `known` are its executors; tasks run on those that are `free`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *known: str, master: str) -> None:
        self.master = master
        self.known = set(known)
        self.free = list(known)
        self.jobs = 0
        self.pythonExec = "python3"
        self.asked: list[str] = []
        """Which Python was to start for the tasks of each job."""
        self.defaultParallelism = len(known)
        self._monkeypatch = monkeypatch
        self._task: Callable[[Iterator[int]], Iterator[Any]] = iter

    sparkContext = _jsc = conf = property(lambda self: self)

    def getConf(self) -> Session:
        return self

    def get(self, name: str, default: str = "") -> str:
        return default

    def sc(self) -> Session:
        return self

    getExecutorMemoryStatus = keySet = sc

    def mkString(self, separator: str) -> str:
        return separator.join(sorted({"driver:1"} | self.known))

    def parallelize(self, numbers: range, _: int) -> Session:
        return self

    def mapPartitions(self, task: Callable[[Iterator[int]], Iterator[Any]]) -> Session:
        self._task = task
        return self

    def collect(self) -> list[Any]:
        self.jobs += 1
        self.asked.append(self.pythonExec)
        answers: list[Any] = []
        for process, _ in enumerate(self.free):
            self._monkeypatch.setattr(os, "getppid", lambda process=process: process)
            answers += self._task(iter(()))
        return answers


def test_executors_are_asked_once_until_others_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    session: Any = Session(monkeypatch, "a:1", "a:2", master="spark://h:7077")
    shared = SharedFolders(session, [str(tmp_path / "table")])
    shared.prove()
    shared.prove()
    assert session.jobs == 1
    assert (session.asked, session.pythonExec) == ([sys.executable], "python3")
    session.known.add("b:1")
    session.free.append("b:1")
    shared.prove()
    assert session.jobs == 2
    session.known.remove("a:1")
    shared.prove()
    assert session.jobs == 2
    assert list((tmp_path / "table").iterdir()) == []


def test_an_executor_that_got_no_task_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = Session(monkeypatch, "a:1", "a:2", master="spark://h:7077")
    session.free = ["a:1"]
    shared = SharedFolders(session, [str(tmp_path)])
    shared.prove()
    assert session.jobs == ATTEMPTS_MAX
    session.free = ["a:1", "a:2"]
    shared.prove()
    shared.prove()
    assert session.jobs == ATTEMPTS_MAX + 1


def test_a_folder_of_an_executors_own_is_named_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path below the working directory is another one where the executor works elsewhere."""
    driver, executor = tmp_path / "driver", tmp_path / "executor"
    for each in (driver, executor):
        (each / "table").mkdir(parents=True)
    monkeypatch.chdir(driver)
    session: Any = Session(monkeypatch, "a:1", master="spark://h:7077")
    run = session.collect

    def collect() -> list[Any]:
        with monkeypatch.context() as there:
            there.chdir(executor)
            found: list[Any] = run()
            return found

    session.collect = collect
    with pytest.raises(StagingError, match=rf"{executor}\) and the driver do not share table"):
        SharedFolders(session, ["table"]).prove()


def test_a_local_session_is_asked_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Session(monkeypatch, "a:1", master="local[2]")
    SharedFolders(session, [str(tmp_path)]).prove()
    assert session.jobs == 0


@pytest.mark.slow
def test_the_folder_of_an_iceberg_table_is_proven_before_its_first_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = Session(monkeypatch, "a:1", master="spark://h:7077")
    sink = Sink("iceberg", NAME, {}, catalog=catalog_of(tmp_path))
    job = Job("job.toml", "copy", str(tmp_path / "checkpoint"), Source({}), (sink,))
    write = QueryRun(job, job.queries[0], session, SharedFolders(session, folders_of(job))).writer(
        sink
    )
    run, folder = session.collect, str(tmp_path / "warehouse" / "air" / "flights")

    def collect() -> list[Any]:
        """The executor has no access to the warehouse."""
        answers: list[Any] = run()
        for *_, by_folder in answers:
            by_folder[folder] = (False, "", "Permission denied")
        return answers

    session.collect = collect
    with pytest.raises(StagingError, match=f"do not share {folder}: Permission denied"):
        write(frame(id=[1]), 0)
    assert not list(tmp_path.rglob("*.parquet"))
    session.collect = run
    for batch in range(2):
        write(frame(id=[batch]), batch)
    assert session.jobs == 2
    assert sorted(rows_of("iceberg", tmp_path)["id"].to_pylist()) == [0, 1]
