"""Checkpoint and ledger part: the right rows land, or an error names query, batch and way out."""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.pipeline import checkpoint
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import (
    ClusterUnreachableError,
    LedgerError,
    StagingError,
    WriteRefusedError,
)
from barnabas.pipeline.options import SinkOptions, sink_options
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write import by_manifest
from barnabas.pipeline.write.commit_log import COMMITTED, CommitLog
from barnabas.types import TopicPartition
from tests.unit.pipeline.fake_cluster import Countdown, Crash, FakeCluster
from tests.unit.pipeline.streaming_query import PARTITIONS, Query
from tests.unit.pipeline.test_exactly_once import options, rows, stage, values


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(PARTITIONS)
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def words(word: str, begin: int, end: int) -> Counter[bytes]:
    return Counter(b"%s%d" % (word.encode(), n) for n in range(begin, end))


def ledger_of(query: Query) -> CommitLog:
    assert query.options.staging is not None
    return CommitLog(open_store(query.options.staging), query.application)


def put_back(copy: Path, original: Path) -> None:
    shutil.rmtree(original)
    shutil.copytree(copy, original)


@pytest.mark.slow
def test_a_restored_checkpoint_writes_its_rows_again(cluster: FakeCluster, tmp_path: Path) -> None:
    here, copy = tmp_path / "checkpoint", tmp_path / "copy"
    query = Query(here)
    query.start("old", 90)
    shutil.copytree(here, copy)
    query.start("old", 180)
    put_back(copy, here)
    Query(here).start("new", 180)
    assert values(cluster) == words("old", 0, 180) + words("new", 90, 180)


@pytest.mark.slow
def test_a_checkpoint_restored_while_its_query_was_copied_live_keeps_all_rows(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Within one run: the copy's ledger has sequences that the run continues to use."""
    here, copy = tmp_path / "checkpoint", tmp_path / "copy"
    for batch in Query(here).batches("old", 180):
        if batch == 2:
            shutil.copytree(here, copy, dirs_exist_ok=True)
    shutil.rmtree(copy / "commits")
    (copy / "commits").mkdir()
    for each in (0, 1):  # the copy was taken before batch 2 was committed
        (copy / "commits" / str(each)).touch()
    put_back(copy, here)
    Query(here).start("new", 180)
    assert values(cluster) == words("old", 0, 180) + words("new", 90, 180)


@pytest.mark.slow
def test_a_copied_checkpoint_and_its_original_both_write_all_rows(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    here, copy = tmp_path / "blue", tmp_path / "green"
    blue = Query(here).batches("blue", 150)
    assert [next(blue), next(blue)] == [0, 1]
    shutil.copytree(here, copy)
    green = Query(copy).batches("green", 150)
    for _ in range(3):
        next(blue), next(green)
    assert values(cluster) == words("blue", 0, 150) + words("green", 60, 150)


def test_a_copied_checkpoint_that_shares_its_ledger_is_refused(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    here, copy, staging = tmp_path / "blue", tmp_path / "green", str(tmp_path / "ledger")
    blue = Query(here, staging=staging).batches("blue", 150)
    assert [next(blue), next(blue)] == [0, 1]
    shutil.copytree(here, copy)
    next(blue)
    with pytest.raises(LedgerError, match=r"batch 2 .* stagingLocation of its own"):
        Query(copy, staging=staging).start("green", 150)
    assert [*blue] == [3, 4]
    assert values(cluster) == words("blue", 0, 150)


@pytest.mark.slow
@pytest.mark.parametrize("back", [1, 2])
def test_a_rolled_back_checkpoint_with_its_ledger_elsewhere_is_refused(
    cluster: FakeCluster, tmp_path: Path, back: int
) -> None:
    here, copy, staging = tmp_path / "checkpoint", tmp_path / "copy", str(tmp_path / "ledger")
    query = Query(here, staging=staging)
    query.start("old", 90)
    shutil.copytree(here, copy)
    query.start("old", 90 + 30 * back)
    put_back(copy, here)
    again = Query(here, staging=staging)
    way_out = f"barnabas pipeline ledger forget --staging {staging} --from 3 {query.id}"
    for _ in range(2):
        with pytest.raises(LedgerError) as raised:
            again.start("new", 180)
        for expected in (f"batch 3 of application '{query.id}'", f"query {query.id}", way_out):
            assert expected in str(raised.value)
    ledger_of(again).forget(3)
    again.start("new", 180)
    assert values(cluster) == words("old", 0, 90 + 30 * back) + words("new", 90, 180)


def test_a_batch_of_a_rolled_back_checkpoint_is_not_taken_for_the_new_one(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    here, copy, staging = tmp_path / "checkpoint", tmp_path / "copy", str(tmp_path / "ledger")
    query = Query(here, staging=staging)
    query.start("old", 30)
    shutil.copytree(here, copy)
    cluster.countdown = Countdown(3)
    with pytest.raises(Crash):
        query.start("old", 60)
    put_back(copy, here)
    with pytest.raises(LedgerError, match="has begun another batch 1"):
        Query(here, staging=staging).start("new", 60)
    ledger_of(query).forget(1)
    Query(here, staging=staging).start("new", 60)
    found = values(cluster)
    assert all(found[each] == 1 for each in words("new", 30, 60))


def test_a_query_that_died_before_spark_committed_its_batch_continues(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(tmp_path / "checkpoint")
    query.start("old", 90)
    (query.checkpoint / "commits" / "2").unlink()
    query.start("new", 150)
    assert values(cluster) == words("old", 0, 90) + words("new", 90, 150)
    assert not skipped(caplog)


def skipped(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("pipeline.batch_skipped")]


def test_a_batch_that_is_skipped_unchecked_is_said_to_be(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark may keep its checkpoint where Python cannot read it."""
    query = Query(tmp_path / "checkpoint", checkpoint=str(tmp_path / "hidden"))
    query.start("old", 30)
    (query.checkpoint / "commits" / "0").unlink()
    with caplog.at_level(logging.WARNING):
        query.start("new", 60)
    assert values(cluster) == words("old", 0, 30) + words("new", 30, 60)
    (said,) = skipped(caplog)
    assert query.id in said and "batch 0" in said


def test_an_application_that_another_query_has_is_refused(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    staging = str(tmp_path / "ledger")
    first = Query(tmp_path / "first", staging=staging, application="delays")
    first.start("first", 90)
    second = Query(tmp_path / "second", staging=staging, application="delays")
    with pytest.raises(LedgerError) as raised:
        second.start("second", 90)
    way_out = f"barnabas pipeline ledger forget --staging {staging} delays"
    for expected in ("batch 0 of application 'delays'", second.id, first.id, way_out):
        assert expected in str(raised.value)
    ledger_of(second).forget()
    second.start("second", 90)
    assert values(cluster) == words("first", 0, 90) + words("second", 0, 90)


def test_two_writes_of_one_batch_under_one_application_are_refused(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """As foreachBatch makes them where one name is given twice."""
    settings = options(tmp_path)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 30))], 0)
    with pytest.raises(LedgerError, match=r"batch 0 .*query query .*an application .* of its own"):
        by_manifest.publish_once(settings, [stage(settings, rows(30, 30))], 0)
    outside = [stage(settings, rows(0, 30), query="", run="")]
    assert by_manifest.publish_once(settings, outside, 0) == 0  # txnAppId and txnVersion say it


def test_a_lost_ledger_is_noticed_and_may_be_begun_again(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    query = Query(tmp_path / "checkpoint")
    query.start("old", 30)
    cluster.countdown = Countdown(3)
    with pytest.raises(Crash):
        query.start("old", 60)
    cluster.countdown = Countdown()
    shutil.rmtree(tmp_path / "checkpoint" / "barnabas")
    with pytest.raises(LedgerError) as raised:
        query.start("old", 90)
    for expected in (query.id, "batch 1", "set option newLedger to 1"):
        assert expected in str(raised.value)
    assert sum(values(cluster).values()) < 60
    begun = Query(query.checkpoint, new_ledger=1)
    begun.start("old", 90)
    begun.start("old", 120)  # the option may stay
    assert set(values(cluster)) == set(words("old", 0, 120))
    shutil.rmtree(tmp_path / "checkpoint" / "barnabas")
    with pytest.raises(LedgerError, match="set option newLedger to 4"):
        begun.start("old", 150)


def test_a_query_whose_first_batches_are_empty_has_a_ledger(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    settings = options(tmp_path, new_ledger=None)
    for number, count in enumerate((0, 0, 30, 0, 30)):
        task = stage(settings, rows(30 * number, count), run="run")
        by_manifest.publish_once(settings, [task], number)
    assert sum(values(cluster).values()) == 60


@pytest.mark.slow
def test_a_smaller_batch_size_holds_for_a_batch_that_was_refused(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """What has landed of it stays; of the rest each row goes out once, in its order."""
    here = tmp_path / "checkpoint"
    cluster.batch_bytes_max = {TopicPartition("t", 1): 400, TopicPartition("t", 2): 400}
    with pytest.raises(WriteRefusedError, match=r"set kafka\.batch\.size") as raised:
        Query(here, per_trigger=3000, batch_bytes_max=2_000).start("old", 6000)
    id_ = Query(here).id
    for expected in ("batch 0", id_, "barnabas pipeline ledger skip", "MESSAGE_TOO_LARGE"):
        assert expected in str(raised.value)
    assert cluster.ends[TopicPartition("t", 0)] == 1000
    again = Query(here, per_trigger=3000, batch_bytes_max=300)
    countdown = cluster.countdown = Countdown(7)
    with pytest.raises(Crash):
        again.start("old", 6000)
    assert countdown.left == 0
    Query(here, per_trigger=3000, batch_bytes_max=300).start("old", 6000)
    assert values(cluster) == words("old", 0, 6000)
    for partition in cluster.logs:
        assert in_order(cluster, partition)


def in_order(cluster: FakeCluster, partition: TopicPartition) -> bool:
    from barnabas.record.columnar import decode

    found: list[int] = []
    for columns in decode(b"".join(cluster.logs[partition]), 0, 1 << 40).columns:
        found += [int(each[3:]) for each in columns.values.to_arrow().to_pylist()]
    return found == sorted(found)


@pytest.mark.slow
def test_a_batch_that_is_stuck_for_good_can_be_left_out(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    query = Query(tmp_path / "checkpoint")
    query.start("old", 30)
    cluster.batch_bytes_max = dict.fromkeys(cluster.logs, 50)
    for _ in range(2):
        with pytest.raises(WriteRefusedError, match=r"barnabas pipeline ledger skip .* --batch 1"):
            query.start("old", 60)
    cluster.batch_bytes_max = {}
    ledger_of(query).skip(1)
    with pytest.raises(LedgerError, match="published already"):
        ledger_of(query).skip(1)
    query.start("old", 120)
    assert values(cluster) == words("old", 0, 30) + words("old", 60, 120)


@pytest.mark.slow
def test_a_stuck_batch_that_is_forgotten_is_computed_again(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    query = Query(tmp_path / "checkpoint")
    query.start("old", 30)
    cluster.batch_bytes_max = dict.fromkeys(cluster.logs, 50)
    with pytest.raises(WriteRefusedError):
        query.start("old", 60)
    cluster.batch_bytes_max = {}
    ledger_of(query).forget(1)
    query.start("new", 90)
    assert values(cluster) == words("old", 0, 30) + words("new", 30, 90)


@pytest.mark.slow
def test_a_batch_for_a_partition_that_is_gone_names_the_ways_out(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """A topic that was deleted and made again with fewer partitions."""
    query = Query(tmp_path / "checkpoint")
    cluster.countdown = Countdown(3)
    with pytest.raises(Crash):
        query.start("old", 30)
    cluster.countdown = Countdown()
    del cluster.logs[TopicPartition("t", 2)]
    cluster.patience_ms = 50.0
    task = replace(stage(query.options, rows(0, 1), query=query.id), application=query.application)
    with pytest.raises(ClusterUnreachableError, match=r"batch 0 .*t-2 does not exist.* skip .* 0 "):
        by_manifest.publish_once(query.options, [task], 0)
    ledger_of(query).skip(0)
    assert by_manifest.publish_once(query.options, [task], 0) == 0


@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_a_batch_whose_staged_rows_are_gone_names_the_ways_out(
    cluster: FakeCluster, tmp_path: Path, inline: int
) -> None:
    """As after a restart on another machine, with a directory that is not shared."""
    query = Query(tmp_path / "checkpoint", inline_bytes_max=inline)
    query.start("old", 30)
    cluster.countdown = Countdown(3)
    with pytest.raises(Crash):
        query.start("old", 60)
    cluster.countdown = Countdown()
    for each in (tmp_path / "checkpoint" / "barnabas").glob("*/staged/*"):
        each.unlink()
    if inline:
        query.start("old", 60)
    else:
        with pytest.raises(StagingError, match=r"batch 1 .*is gone from.* forget .*--from 1 "):
            query.start("old", 60)
        ledger_of(query).forget(1)
        query.start("old", 60)
    assert set(values(cluster)) == set(words("old", 0, 60))


def test_a_ledger_of_a_later_version_is_not_misread(cluster: FakeCluster, tmp_path: Path) -> None:
    query = Query(tmp_path / "checkpoint")
    query.start("old", 30)
    file = tmp_path / "checkpoint" / "barnabas" / query.id / COMMITTED
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "version": 99}))
    with pytest.raises(LedgerError, match="version 99"):
        query.start("old", 60)
    first = {key: document[key] for key in document if key not in ("query", "run", "planned")}
    file.write_text(json.dumps({**first, "version": 1}))
    query.start("old", 60)
    assert values(cluster) == words("old", 0, 60)


def test_a_manifest_of_a_later_version_is_not_misread(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path / "checkpoint")
    monkeypatch.setattr("barnabas.pipeline.write.commit_log.VERSION", 3)
    cluster.countdown = Countdown(3)
    with pytest.raises(Crash):
        query.start("old", 30)
    monkeypatch.setattr("barnabas.pipeline.write.commit_log.VERSION", 2)
    with pytest.raises(LedgerError, match=r"0.manifest .* version 3"):
        query.start("old", 30)


def test_a_staged_file_that_the_driver_lacks_is_a_sentence(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Executors that stage into disks of their own; nothing is sent and nothing is stuck. The first task of
    a process stages a file, so that few rows show it too."""
    settings = options(tmp_path / "driver")
    elsewhere = options(tmp_path / "executor")
    first = stage(elsewhere, rows(0, 30))
    assert stage(elsewhere, rows(0, 30)).file is None
    with pytest.raises(StagingError, match=r"batch 0 .*executor on .*driver and executors share"):
        by_manifest.publish_once(settings, [first], 0)
    elsewhere = options(tmp_path / "executor", inline_bytes_max=0)
    plainly = options(tmp_path / "driver", application=None, version=None, inline_bytes_max=0)
    with pytest.raises(StagingError, match="driver and executors share"):
        by_manifest.publish_plainly(plainly, [stage(elsewhere, rows(0, 30))])
    by_manifest.publish_once(settings, [stage(settings, rows(0, 30))], 0)
    assert sum(values(cluster).values()) == 30


def test_relative_places_are_made_absolute_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def made(**given: str) -> SinkOptions:
        return sink_options(
            {"kafka.bootstrap.servers": "fake:1", "topic": "t", **given}, streaming=True
        )

    assert made(checkpointLocation="ck").staging == str(tmp_path / "ck" / "barnabas")
    assert made(checkpointLocation="ck").checkpoint == str(tmp_path / "ck")
    assert made(stagingLocation="../here/x").staging == str(tmp_path.parent / "here" / "x")
    assert made(stagingLocation="s3://bucket/x").staging == "s3://bucket/x"


def test_a_checkpoint_of_another_query_says_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path / "checkpoint")
    (query.checkpoint / "offsets" / "0").write_text("{}")
    assert checkpoint.planned(query.options, query.id, 0)
    assert not checkpoint.planned(query.options, "another", 0)
    assert not checkpoint.planned(query.options, query.id, 1)
    around = options(tmp_path / "checkpoint" / "barnabas")
    assert checkpoint.planned(around, query.id, 0) == checkpoint.planned(query.options, query.id, 0)
