"""What a path without a scheme means, in a local session, on a cluster, and with a default store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import OptionError, StagingError
from barnabas.pipeline.jobs.job_file import Job, Sink, Source
from barnabas.pipeline.jobs.job_run import folders_of, placed
from barnabas.pipeline.jobs.tables.parquet_table import ParquetTable
from barnabas.pipeline.places import stores
from barnabas.pipeline.places.bare_paths import other_store, resolved
from barnabas.pipeline.places.one_place import QUERY_ID
from barnabas.pipeline.places.place_names import as_folder, is_in_store
from barnabas.pipeline.write import by_manifest, staged_task, writers
from tests.unit.pipeline.fake_cluster import FakeCluster
from tests.unit.pipeline.test_exactly_once import options, rows

STANDALONE = "spark://h:7077"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


@pytest.mark.parametrize(
    "master", [STANDALONE, "yarn", "k8s://https://h:6443", "local-cluster[2,1,512]"]
)
def test_a_bare_path_on_a_cluster_is_refused_with_the_remedy(master: str) -> None:
    with pytest.raises(StagingError, match="checkpoint /data/c is a bare path") as refused:
        resolved("/data/c", "checkpoint", master=master, store="")
    for remedy in ("write file:///data/c where every machine mounts it", "s3a://", "hdfs://"):
        assert remedy in str(refused.value)
    assert resolved("file:///data/c", "checkpoint", master=master, store="") == "file:///data/c"


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,3]"])
def test_a_bare_path_of_a_local_session_is_this_machines(master: str) -> None:
    assert resolved("/data/c", "checkpoint", master=master, store="") == "/data/c"


@pytest.mark.parametrize(
    ("default", "store"),
    [
        (None, ""),
        ("file:///", ""),
        ("hdfs://namenode:8020", "hdfs://namenode:8020"),
        ("s3a://bucket/", "s3a://bucket"),
    ],
)
def test_a_bare_path_is_in_a_default_store_that_is_no_disk(default: str | None, store: str) -> None:
    assert other_store(default) == store
    if store:
        found = resolved("/data/c", "checkpoint", master=STANDALONE, store=store)
        assert found == f"{store}/data/c"


class Task:
    """A ``TaskContext`` with local properties."""

    def __init__(self, **properties: str) -> None:
        self.properties = {
            QUERY_ID: "query",
            staged_task.BATCH_ID: "0",
            staged_task.RUN_ID: "",
            **properties,
        }

    def partitionId(self) -> int:
        return 0

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)


@pytest.mark.parametrize("given", ["staging", "checkpoint"])
def test_a_task_on_a_cluster_stages_nothing_at_a_bare_path(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Task(**{"spark.master": STANDALONE}))
    (tmp_path / "metadata").write_text('{"id": "query"}')
    shared = f"file://{tmp_path}"
    places: dict[str, Any] = {"staging": f"{shared}/barnabas", "checkpoint": shared}
    settings = replace(options(tmp_path, inline_bytes_max=0), **places)
    assert writers.StreamWriter(settings).write(iter([rows(0, 10)])).file is not None
    bare = replace(settings, staging=f"{shared}/bare")
    places = {given: str(tmp_path)}
    bare = replace(bare, **places)
    with pytest.raises(StagingError, match=f"{given}Location {tmp_path} is a bare path"):
        writers.StreamWriter(bare).write(iter([rows(0, 10)]))
    assert not (tmp_path / "bare").exists()


def test_driver_and_tasks_find_a_bare_path_in_the_default_store(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    properties = {"spark.master": STANDALONE, "spark.hadoop.fs.defaultFS": "hdfs://host:8020"}
    opened: list[str] = []
    opens = stores.open_store

    def open_store(place: str) -> Any:
        opened.append(place)
        return opens(place.replace("hdfs://host:8020", ""))

    for module in (staged_task, by_manifest):
        monkeypatch.setattr(module, "open_store", open_store)
    writer = writers.StreamWriter(options(tmp_path, inline_bytes_max=0, delivery="manifest"))
    with monkeypatch.context() as task:
        task.setattr(TaskContext, "get", lambda: Task(**properties))
        staged = writer.write(iter([rows(0, 10)]))
    writer.commit([staged], 0)
    assert set(opened) == {f"hdfs://host:8020{tmp_path}"}


class Session:
    """A driver's session, as far as it is asked for master and default file system."""

    def __init__(self, master: str, default: str) -> None:
        self.master = master
        self._default = default

    sparkContext = _jsc = property(lambda self: self)

    def hadoopConfiguration(self) -> Session:
        return self

    def get(self, name: str) -> str:
        assert name == "fs.defaultFS"
        return self._default


def job(checkpoint: str, table: str, *, is_bare: bool) -> Job:
    made = Sink("delta", table, is_bare=is_bare)
    return Job("job.toml", "copy", checkpoint, Source({}), (made,))


def test_a_job_on_a_cluster_refuses_bare_paths() -> None:
    session: Any = Session(STANDALONE, "file:///")
    with pytest.raises(StagingError, match="checkpoint /data/c is a bare path"):
        placed(job("/data/c", "/data/t", is_bare=False), session)
    with pytest.raises(StagingError, match="delta table /data/t is a bare path"):
        placed(job("file:///data/c", "/data/t", is_bare=True), session)
    found = placed(job("file:///data/c", "/data/t", is_bare=False), session)
    assert folders_of(found) == ["/data/c", "/data/t"]


def test_a_job_has_its_bare_paths_in_the_default_store() -> None:
    session: Any = Session("yarn", "s3a://bucket")
    found = placed(job("/data/c", "/data/t", is_bare=True), session)
    assert (found.checkpoint, found.sinks[0].place) == (
        "s3a://bucket/data/c",
        "s3a://bucket/data/t",
    )


def test_a_parquet_table_in_a_store_is_refused() -> None:
    assert is_in_store("s3a://bucket/t") and not is_in_store("file:///t") and not is_in_store("/t")
    assert as_folder("file:///a%20b/t") == "/a b/t"
    with pytest.raises(OptionError, match="delta and iceberg tables may be there"):
        ParquetTable("s3a://bucket/t")
