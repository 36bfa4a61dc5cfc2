"""A batch lands once, wherever the driver that publishes it ends, however often it runs again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.options import ClusterOptions, SinkOptions
from barnabas.pipeline.places.stores import DirectoryStore, open_store
from barnabas.pipeline.write import by_manifest, staged_task, writers
from barnabas.pipeline.write.commit_log import CommitLog, Origin
from barnabas.record.columnar import decode
from tests.unit.pipeline.fake_cluster import BROKER, Countdown, Crash, FakeCluster

ORIGIN = Origin(query="query", run="run")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def options(staging: Path, **changes: Any) -> SinkOptions:
    settings: dict[str, Any] = {
        "cluster": ClusterOptions((BROKER,)),
        "topic": "t",
        "staging": str(staging),
        "application": "app",
        "version": 0,
        "batch_bytes_max": 300,
        "new_ledger": 1,  # some tests begin with batch 1
    }
    return SinkOptions(**{**settings, **changes})


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {"key": [f"k{n % 17}" for n in numbers], "value": [f"v{n}" for n in numbers]}
    )


def stage(
    settings: SinkOptions, *batches: pa.RecordBatch, query: str = "query", run: str = "run"
) -> staged_task.StagedTask:
    """What a task of the query's run hands over."""
    return replace(staged_task.stage(settings, iter(batches)), query=query, run=run)


def values(cluster: FakeCluster) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for log in cluster.logs.values():
        for columns in decode(b"".join(log), 0, 1 << 40).columns:
            found.update(columns.values.to_arrow().to_pylist())
    return found


def expected(first: int, count: int) -> Counter[bytes]:
    return Counter(b"v%d" % n for n in range(first, first + count))


def crashes(cluster: FakeCluster) -> Iterator[int]:
    """1, 2, 3 ... until a run had fewer steps than that; the caller publishes in between."""
    n = 0
    while True:
        n += 1
        cluster.countdown = Countdown(n)
        yield n
        if cluster.countdown.left > 0:
            return


def test_a_batch_lands_once(cluster: FakeCluster, tmp_path: Path) -> None:
    settings = options(tmp_path)
    sent = by_manifest.publish_once(settings, [stage(settings, rows(0, 200))], 0)
    assert sent > 6
    assert by_manifest.publish_once(settings, [stage(settings, rows(0, 200), run="again")], 0) == 0
    assert values(cluster) == expected(0, 200)


@pytest.mark.slow
def test_a_crash_at_every_step_of_publishing_leaves_each_row_once(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    first = 0
    for n in crashes(cluster):
        settings = options(tmp_path, version=n)
        try:
            by_manifest.publish_once(settings, [stage(settings, rows(first, 90))], n)
        except Crash:
            # The run that follows computes the same rows in another order and other tasks.
            again = [
                stage(settings, rows(first + 40, 50), run="again"),
                stage(settings, rows(first, 40), run="again"),
            ]
            by_manifest.publish_once(settings, again, n)
        first += 90
    assert first > 90 * 10
    assert values(cluster) == expected(0, first)


@pytest.mark.slow
def test_a_crash_is_survived_when_brokers_have_forgotten_the_producer(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    first = 0
    for n in crashes(cluster):
        settings = options(tmp_path, version=n)
        try:
            by_manifest.publish_once(settings, [stage(settings, rows(first, 60))], n)
        except Crash:
            cluster.forget_producers()
            by_manifest.publish_once(settings, [stage(settings, rows(first, 60), run="again")], n)
        first += 60
    assert values(cluster) == expected(0, first)


@pytest.mark.slow
def test_a_store_that_fails_at_every_step_leaves_each_row_once(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    countdown = Countdown()

    def watched(name: str) -> None:
        original = getattr(DirectoryStore, name)

        def call(self: DirectoryStore, *arguments: Any) -> Any:
            countdown.tick()
            return original(self, *arguments)

        monkeypatch.setattr(DirectoryStore, name, call)

    for name in ("write", "write_new", "read", "read_at", "names", "delete"):
        watched(name)
    first, n = 0, 0
    while True:
        n += 1
        settings = options(tmp_path, version=n, inline_bytes_max=0)
        task = stage(settings, rows(first, 60))
        countdown.left, countdown.ticks = n, 0
        try:
            by_manifest.publish_once(settings, [task], n)
        except Crash:
            by_manifest.publish_once(settings, [stage(settings, rows(first, 60), run="again")], n)
        else:
            break
        first += 60
    assert n > 5
    assert values(cluster) == expected(0, first + 60)


@pytest.mark.slow
def test_lost_answers_and_moved_leaders_leave_each_row_once(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.lost_answers, cluster.moved = 3, 4
    settings = options(tmp_path)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 200))], 0)
    assert values(cluster) == expected(0, 200)


def test_a_gap_in_sequences_is_healed_under_a_new_identity(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    settings = options(tmp_path)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 100))], 0)
    for partition in cluster.logs:
        cluster.lose_sequence(partition)
    by_manifest.publish_once(settings, [stage(settings, rows(100, 100))], 1)
    by_manifest.publish_once(settings, [stage(settings, rows(200, 100))], 2)
    assert values(cluster) == expected(0, 300)


def test_two_drivers_with_the_same_batch_leave_one_manifest(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    settings = options(tmp_path)
    ledger = CommitLog(open_store(str(tmp_path)), "app")
    committed = ledger.committed()
    connected = settings.cluster.connect()
    mine, my_data = by_manifest.plan(
        connected, committed, [stage(settings, rows(0, 50))], 0, ORIGIN
    )
    theirs, their_data = by_manifest.plan(
        connected, committed, [stage(settings, rows(0, 50))], 0, ORIGIN
    )
    standing = ledger.prepare(mine, my_data)
    assert ledger.prepare(theirs, their_data).identity == standing.identity == mine.identity
    for _ in range(2):
        by_manifest.send(settings, connected, ledger, standing, look_first=False)
    ledger.commit(standing, committed)
    assert values(cluster) == expected(0, 50)


def test_files_of_a_batch_are_gone_once_it_is_committed(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    settings = options(tmp_path, inline_bytes_max=0)
    orphan = stage(settings, rows(0, 10))
    task = stage(settings, rows(0, 10))
    assert orphan.file is not None and task.file is not None
    by_manifest.publish_once(settings, [task], 0)
    left = sorted(each.name for each in tmp_path.rglob("*") if each.is_file())
    assert left == ["committed.json"]


def test_an_aborted_batch_keeps_what_a_manifest_names(cluster: FakeCluster, tmp_path: Path) -> None:
    settings = options(tmp_path, inline_bytes_max=0)
    task = stage(settings, rows(0, 60))
    cluster.countdown = Countdown(3)
    with pytest.raises(Crash):
        by_manifest.publish_once(settings, [task], 0)
    writer = writers.StreamWriter(settings)
    writer.abort([task], 0)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 60))], 0)
    assert values(cluster) == expected(0, 60)


def test_rows_without_an_application_are_published_plainly(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    settings = options(tmp_path, application=None, version=None, inline_bytes_max=0)
    writer = writers.BatchWriter(settings)
    writer.commit([writer.write(iter([rows(0, 30)])), None, writer.write(iter([rows(30, 30)]))])
    assert values(cluster) == expected(0, 60)
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
