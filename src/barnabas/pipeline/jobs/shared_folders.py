"""Proof that folders are one place for the driver and for every executor, before a job writes there.

The driver leaves a mark in each folder; a task on each executor looks for it and leaves one of its own, which
the driver looks for. Files of tables are written by tasks: one on an executor's own disk would be a row that
no reader finds. What runs on executors is a nested function, which is pickled by value: it needs nothing
there but Python. For a place in a store (``s3a:`` and others) it needs this package, as the job does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.interpreter import for_session
from barnabas.pipeline.options import SCHEME
from barnabas.pipeline.places import s3_settings
from barnabas.pipeline.places.one_place import remedy
from barnabas.pipeline.places.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROBES_EACH = 4
"""Tasks for each executor, since Spark gives some to those that are free first."""
ATTEMPTS_MAX = 5
MARK = "_probe-"
"""How names begin that readers of a table take for no data."""

Look = Callable[[], dict[str, tuple[bool, str, str]]]


def folder_look(folders: Sequence[str], mark: str) -> Look:
    """A function for executors: by folder whether the driver's mark is there, the name of one's own, and what
    kept it from being written."""
    wanted = [(folder, SCHEME.match(folder) is not None) for folder in folders]

    def look() -> dict[str, tuple[bool, str, str]]:
        import os
        import uuid

        found = {}
        for folder, is_uri in wanted:
            own = f"{mark}-{uuid.uuid4().hex}"
            try:
                if is_uri:
                    from barnabas.pipeline.places.stores import open_store

                    store = open_store(folder)
                    store.write(own, [b"executor"])
                    found[folder] = (mark in store.names(""), own, "")
                    continue
                with open(os.path.join(folder, own), "x"):
                    pass
                found[folder] = (os.path.exists(os.path.join(folder, mark)), own, "")
            except Exception as error:  # noqa: BLE001  whatever keeps it from the place is the answer
                found[folder] = (False, "", str(error))
        return found

    return look


@contextmanager
def marked(folders: Sequence[str]) -> Iterator[str]:
    """The name of a mark that is in each of the folders; afterwards no mark is there."""
    mark = MARK + uuid.uuid4().hex
    stores = {folder: open_store(folder) for folder in folders}
    try:
        for folder, store in stores.items():
            try:
                store.write(mark, [b"driver"])
            except OSError as error:
                raise StagingError(f"the driver cannot write in {folder}: {error}") from error
        yield mark
    finally:
        for store in stores.values():
            for name in store.names(""):
                if name.startswith(mark):
                    store.delete(name)


def why_not_shared(folder: str, answer: tuple[bool, str, str]) -> str | None:
    """The sentence about one executor's answer; None where driver and executor see each other's mark."""
    sees, own, error = answer
    if sees and own and own in open_store(folder).names(""):
        return None
    return error or "what one of them writes the other does not see"


def block_managers(spark: SparkSession) -> set[str]:
    """``host:port`` of each executor that is there now, and of the driver."""
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().keySet()
    return set(str(status.mkString(",")).split(","))


def ask_executors(spark: SparkSession, look: Callable[[], Any]) -> dict[tuple[str, str, int], Any]:
    """The finds of `look` on each executor, as far as Spark gives them tasks. Keys are host, working
    directory, and the process that starts the executor's Python workers: executors of one host may share
    a directory."""

    def task(nothing: Iterator[int]) -> Iterator[tuple[str, str, int, Any]]:
        import os
        import socket

        yield socket.gethostname(), os.getcwd(), os.getppid(), look()

    context = spark.sparkContext
    # Tasks of SQL have these by themselves.
    for name, value in s3_settings.of_session(spark.conf.get).items():
        context.setLocalProperty(name, value)
    known = max(len(block_managers(spark)) - 1, 1)
    tasks = known * PROBES_EACH * max(context.defaultParallelism // known, 1)
    found: dict[tuple[str, str, int], Any] = {}
    before = context.pythonExec
    context.pythonExec = for_session(context)  # that of the job's other tasks
    try:
        for _ in range(ATTEMPTS_MAX):
            answers = context.parallelize(range(tasks), tasks).mapPartitions(task).collect()
            found |= {tuple(where): answer for *where, answer in answers}
            if len(found) >= known:
                break
    finally:
        context.pythonExec = before
    return found


class SharedFolders:
    """The folders of one run, paths or URIs, and the executors that have proven that they share them."""

    def __init__(self, spark: SparkSession, folders: Sequence[str]) -> None:
        self._spark = spark
        self._folders = sorted(set(folders))
        self._proven: set[str] = set()
        self._is_local = str(spark.sparkContext.master).partition("[")[0] == "local"

    def include(self, folder: str) -> None:
        """Have the next `prove` ask all executors for this folder too."""
        if folder not in self._folders:
            self._folders = sorted([*self._folders, folder])
            self._proven.clear()

    def prove(self) -> None:
        """Ask the executors, if some are not proven yet. One that has got no task, because it was busy, is
        asked again by the next call. Raises `StagingError`."""
        if self._is_local or not self._folders:
            return
        found = block_managers(self._spark)
        if found <= self._proven:
            return
        with marked(self._folders) as mark:
            answers = ask_executors(self._spark, folder_look(self._folders, mark))
            for (host, directory, _), by_folder in sorted(answers.items()):
                for folder, answer in by_folder.items():
                    why = why_not_shared(folder, answer)
                    if why is not None:
                        raise StagingError(
                            f"executor on {host} (working directory {directory}) and the driver do not"
                            f" share {folder}: {why}. {remedy(folder)}"
                        )
        if len(answers) >= len(found) - 1:  # the driver is in `found` too
            self._proven |= found
