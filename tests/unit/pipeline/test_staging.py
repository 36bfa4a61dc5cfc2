"""What a writer stages is whole, or leaves nothing behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from types import SimpleNamespace

import pyarrow.fs as pafs
import pytest

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.places import stores
from barnabas.pipeline.places.stores import ArrowStore, DirectoryStore, open_store
from barnabas.pipeline.write import by_manifest, staged_task
from barnabas.pipeline.write.commit_log import CommitLog
from barnabas.types import Buffer
from tests.unit.pipeline.fake_cluster import Countdown, Crash, FakeCluster
from tests.unit.pipeline.test_exactly_once import expected, options, rows, stage, values


def files(directory: Path) -> list[str]:
    return sorted(
        str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_file()
    )


@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
def test_a_disk_that_is_full_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = DirectoryStore(str(tmp_path))
    store.write("app/committed.json", [b"old"])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        store.write("app/committed.json", [b"new"])
        store.write_new("app/0.manifest", [b"new"])
    monkeypatch.undo()
    assert [each for each in files(tmp_path) if each.endswith(".tmp")] == []


def test_the_second_writer_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    assert store.write_new("app/0.manifest", [b"first"])
    assert not store.write_new("app/0.manifest", [b"second"])
    assert files(tmp_path) == ["app/0.manifest"]
    assert store.read("app/0.manifest") == b"first"


def test_a_file_system_without_links_is_asked_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network and FUSE file systems know neither links nor how to sync a directory."""
    sync = os.fsync

    def no_link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def sync_files_only(descriptor: int) -> None:
        if S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(os, "fsync", sync_files_only)
    store = DirectoryStore(str(tmp_path))
    store.write("app/committed.json", [b"old"])
    assert store.write_new("app/0.manifest", [b"first"])
    assert not store.write_new("app/0.manifest", [b"second"])
    assert files(tmp_path) == ["app/0.manifest", "app/committed.json"]
    assert store.read("app/0.manifest") == b"first"


def test_files_of_a_killed_driver_go_with_its_batch(tmp_path: Path) -> None:
    """But not what the driver behind it may be writing now."""
    live = ["app/2.manifest.cd.tmp", "app/committed.json.ef.tmp"]
    for name in ("1.manifest.ab.tmp", "staged/1-0-x.ab.tmp", *(each[4:] for each in live)):
        (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / name).write_bytes(b"half")
    CommitLog(DirectoryStore(str(tmp_path)), "app").clear(1)
    assert files(tmp_path) == live


class CutOff(ArrowStore):
    """A file system where a file shows when it is opened: a kill leaves a part of it."""

    def __init__(self, root: Path, countdown: Countdown, kept: int) -> None:
        super().__init__(pafs.LocalFileSystem(), str(root))
        self._countdown = countdown
        self._kept = kept

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        whole = b"".join(bytes(each) for each in parts)
        try:
            self._countdown.tick()
        except Crash:
            super().write(name, [whole[: self._kept]])
            raise
        super().write(name, [whole])


@pytest.mark.parametrize("kept", [0, 5, 60, -1])
@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_a_file_that_was_cut_off_by_a_kill_is_distinguished_from_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, inline: int
) -> None:
    cluster, countdown = FakeCluster(), Countdown()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: cluster)
    store = CutOff(tmp_path, countdown, kept)
    for module in (staged_task, by_manifest):
        monkeypatch.setattr(module, "open_store", lambda _: store)
    settings = options(tmp_path, inline_bytes_max=inline)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 30))], 0)
    for batch, write in ((1, 1), (2, 2), (3, 3)):  # the manifest, committed.json, none
        tasks = [stage(settings, rows(30 * batch, 30))]
        countdown.left = write
        with suppress(Crash):
            by_manifest.publish_once(settings, tasks, batch)
        countdown.left = 0
        for run in ("second", "third"):
            by_manifest.publish_once(
                settings, [stage(settings, rows(30 * batch, 30), run=run)], batch
            )
        assert values(cluster) == expected(0, 30 * (batch + 1))


def test_an_unreadable_ledger_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    store.write("app/committed.json", [b""])
    with pytest.raises(StagingError, match=r"app/committed.json cannot be read"):
        CommitLog(store, "app").committed()


@pytest.mark.parametrize(
    ("location", "opened"),
    [
        ("s3a://bucket/p", "s3://bucket/p"),
        ("S3N://bucket/p", "s3://bucket/p"),
        ("abfss://c@a.dfs.core.windows.net/p", "abfss://c@a.dfs.core.windows.net/p"),
        ("gs://bucket/p", "gs://bucket/p"),
        ("hdfs://host:8020/p", "hdfs://host:8020/p"),
    ],
)
def test_a_place_is_opened_by_the_name_that_spark_has_for_it(
    location: str, opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def from_uri(uri: str) -> tuple[pafs.FileSystem, str]:
        asked.append(uri)
        return pafs.LocalFileSystem(), "/p"

    files = SimpleNamespace(FileSystem=SimpleNamespace(from_uri=from_uri))
    monkeypatch.setattr(stores, "pafs", files)
    open_store(location)
    assert asked == [opened]


def test_a_place_of_databricks_is_its_mounted_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StagingError, match=r"dbfs:/p.* /dbfs is no mounted file system here"):
        open_store("dbfs:/p")
    monkeypatch.setattr(os.path, "ismount", lambda path: path == "/dbfs")
    assert repr(open_store("dbfs:/p/q")) == "DirectoryStore(/dbfs/p/q)"
