"""Writers that end at a bad moment, brokers that forget, answers that come late: each row once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from barnabas.client.network.connection import ChannelError
from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.pipeline.cluster_client import ClusterClient, offsets_of_all
from barnabas.pipeline.errors import (
    ClusterUnreachableError,
    LedgerError,
    StagingError,
    UnknownPartitionError,
    WriteRefusedError,
)
from barnabas.pipeline.offsets import LATEST
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.places.one_place import QUERY_ID
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write import by_manifest, staged_task, writers
from barnabas.pipeline.write.commit_log import CommitLog
from barnabas.pipeline.write.publisher import Outgoing, Publisher
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode
from tests.unit.pipeline.fake_cluster import Countdown, Crash, FakeCluster, header_of
from tests.unit.pipeline.test_exactly_once import ORIGIN, expected, options, rows, stage, values


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def test_an_aborted_batch_write_keeps_what_a_manifest_names(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Spark aborts a write whose commit failed, and `foreachBatch` asks for it again."""
    settings = options(tmp_path, inline_bytes_max=0)
    writer = writers.BatchWriter(settings)
    tasks: list[Any] = [writer.write(iter([rows(0, 60)])), None]
    cluster.countdown = Countdown(3)
    with pytest.raises(Crash):
        writer.commit(tasks)
    writer.abort(tasks)
    writer.commit([writer.write(iter([rows(0, 60)]))])
    assert values(cluster) == expected(0, 60)


def test_an_aborted_batch_write_without_a_manifest_leaves_no_file(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    writer = writers.BatchWriter(options(tmp_path, inline_bytes_max=0))
    writer.abort([writer.write(iter([rows(0, 60)])), None])
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_a_batch_that_was_never_asked_for_again_is_ended_by_the_next(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """The next one has as many rows in as many batches: under the same sequences brokers would
    take them for those that had landed."""
    settings = options(tmp_path, batch_bytes_max=100_000)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 30))], 0)
    cluster.countdown = Countdown(4)
    with pytest.raises(Crash):
        by_manifest.publish_once(settings, [stage(settings, rows(30, 30))], 1)
    cluster.countdown = Countdown()
    by_manifest.publish_once(settings, [stage(settings, rows(60, 30))], 2)
    assert values(cluster) == expected(0, 90)
    with pytest.raises(LedgerError, match="has published up to batch 2"):
        by_manifest.publish_once(settings, [stage(settings, rows(30, 30), run="again")], 1)
    assert values(cluster) == expected(0, 90)


class Replicating(FakeCluster):
    """What was appended shows only once its answer was waited for, as acks=all has it."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = dict(self.ends)

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        found = super().list_offsets(at, isolation=isolation)
        return {
            each: OffsetAndTimestamp(min(known.offset, self.shown[each]), -1)
            for each, known in found.items()
        }

    def wait(self, answer: Any) -> Any:
        if hasattr(answer, "responses") and hasattr(answer.responses[0], "partition_responses"):
            for each in answer.responses[0].partition_responses:
                partition = TopicPartition("t", each.index)
                self.shown[partition] = self.ends[partition]
        return super().wait(answer)


def test_batches_of_a_lost_identity_are_not_sent_under_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = Replicating()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: cluster)
    monkeypatch.setattr(
        "barnabas.pipeline.write.publisher.REQUEST_BYTES_MAX", 1
    )  # a request for each
    settings = options(tmp_path, batch_bytes_max=100_000)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 60))], 0)
    cluster.lose_sequence(TopicPartition("t", 0))
    by_manifest.publish_once(settings, [stage(settings, rows(60, 60))], 1)
    assert values(cluster) == expected(0, 120)


def test_a_driver_thought_dead_takes_nothing_back(cluster: FakeCluster, tmp_path: Path) -> None:
    settings = options(tmp_path, batch_bytes_max=100_000)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 30))], 0)
    ledger = CommitLog(open_store(str(tmp_path)), "app")
    before = ledger.committed()
    plan = by_manifest.plan(
        settings.cluster.connect(), before, [stage(settings, rows(30, 30))], 1, ORIGIN
    )
    late = ledger.prepare(*plan)
    by_manifest.publish_once(settings, [stage(settings, rows(30, 30))], 1)
    by_manifest.publish_once(settings, [stage(settings, rows(60, 30))], 2)
    ledger.commit(late, before)
    assert ledger.committed().batch == 2
    by_manifest.publish_once(settings, [stage(settings, rows(90, 30))], 3)
    assert values(cluster) == expected(0, 120)


def crash_and_forget(cluster: FakeCluster, settings: SinkOptions) -> None:
    """A driver dies with a part of 600 rows sent, and no broker knows its producer any more."""
    cluster.countdown = Countdown(30)
    with pytest.raises(Crash):
        by_manifest.publish_once(settings, [stage(settings, rows(0, 600))], 0)
    cluster.countdown = Countdown()
    cluster.forget_producers()


def test_a_batch_that_compaction_has_removed_is_not_sent_behind_a_younger_one(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    settings = options(tmp_path)
    crash_and_forget(cluster, settings)
    log = cluster.logs[TopicPartition("t", 0)]
    assert len(log) > 2
    gone = log.pop(0)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 600))], 0)
    assert header_of(gone).base_sequence not in [header_of(each).base_sequence for each in log]


@pytest.mark.slow
def test_a_partition_that_a_broker_does_not_know_yet_is_not_an_empty_one(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = options(tmp_path)
    crash_and_forget(cluster, settings)
    known, asked = cluster.list_offsets, 0

    def behind(
        at: Mapping[TopicPartition, int], **more: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        nonlocal asked
        asked += 1
        return {} if asked < 3 else known(at, **more)

    monkeypatch.setattr(cluster, "list_offsets", behind)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 600))], 0)
    assert values(cluster) == expected(0, 600)
    monkeypatch.setattr(cluster, "list_offsets", lambda *_, **__: {})
    at_end = {TopicPartition("t", 0): LATEST}
    with pytest.raises(UnknownPartitionError, match="t-0 does not exist"):
        offsets_of_all(settings.cluster.connect(), at_end, patience_ms=10.0)


def test_a_file_is_named_by_the_number_that_its_rows_are_published_under(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a stream's micro-batch a write may have a version of its own."""

    class Context:
        @staticmethod
        def partitionId() -> int:
            return 3

        @staticmethod
        def getLocalProperty(name: str) -> str | None:
            return {
                QUERY_ID: "query",
                staged_task.BATCH_ID: "6",
                staged_task.RUN_ID: "a group",
            }.get(name)

    monkeypatch.setattr(TaskContext, "get", lambda: Context)
    batch = writers.BatchWriter(options(tmp_path, inline_bytes_max=0, version=1005))
    stream = writers.StreamWriter(options(tmp_path, inline_bytes_max=0, version=1005))
    tasks = [each.write(iter([rows(0, 10)])) for each in (batch, stream)]
    files = [each.file or "" for each in tasks]
    assert [(each.query, each.run) for each in tasks] == [("query", "")] * 2
    assert files[0].startswith("app/staged/1005-3-")
    assert files[1].startswith("app/staged/6-3-")


def test_an_executor_without_the_drivers_checkpoint_stages_nothing(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk is its own, or Spark and Python mean different places by a bare path."""

    class Context:
        @staticmethod
        def partitionId() -> int:
            return 0

        @staticmethod
        def getLocalProperty(name: str) -> str | None:
            return {QUERY_ID: "query", staged_task.BATCH_ID: "0", staged_task.RUN_ID: ""}.get(name)

    monkeypatch.setattr(TaskContext, "get", lambda: Context)
    writer = writers.StreamWriter(options(tmp_path / "staging", checkpoint=str(tmp_path)))
    sentence = "executor on .* does not find metadata in checkpointLocation .*fs.defaultFS"
    with pytest.raises(StagingError, match=sentence):
        writer.write(iter([rows(0, 10)]))
    assert not (tmp_path / "staging").exists()
    (tmp_path / "metadata").write_text('{"id": "query"}')
    assert writer.write(iter([rows(0, 10)])).file is not None
    elsewhere = options(tmp_path / "staging", checkpoint="oss://bucket/path")  # one of Hadoop's
    assert writers.StreamWriter(elsewhere).write(iter([rows(0, 10)])).file is None


def test_the_search_for_what_has_landed_ends_with_the_last_of_it(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = options(tmp_path, batch_bytes_max=100_000)
    connected, ledger = settings.cluster.connect(), CommitLog(open_store(str(tmp_path)), "app")
    manifest = ledger.prepare(
        *by_manifest.plan(connected, ledger.committed(), [stage(settings, rows(0, 30))], 0, ORIGIN)
    )
    by_manifest.send(settings, connected, ledger, manifest, look_first=False)
    other = options(tmp_path, application=None, version=None, batch_bytes_max=100)
    by_manifest.publish_plainly(other, [stage(other, rows(30, 300))])
    monkeypatch.setattr(cluster, "fetched_batches_max", 1)
    fetched = cluster.fetches
    assert by_manifest.send(settings, connected, ledger, manifest, look_first=True) == 0
    assert cluster.fetches - fetched <= 2 * len(cluster.logs)


def test_a_batch_that_a_topic_finds_too_large_says_by_what(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = options(tmp_path)
    task = stage(settings, rows(0, 10))
    monkeypatch.setattr(cluster, "_append", lambda *_: ErrorCode.MESSAGE_TOO_LARGE)
    largest = max(each.size for each in task.chunks)
    wanted = f"MESSAGE_TOO_LARGE: a batch has {largest} bytes, max.message.bytes"
    with pytest.raises(WriteRefusedError, match=wanted):
        by_manifest.publish_once(settings, [task], 0)


def test_a_record_that_is_too_large_alone_needs_no_smaller_batch(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = options(tmp_path)
    task = stage(settings, rows(0, 1))
    monkeypatch.setattr(cluster, "_append", lambda *_: ErrorCode.MESSAGE_TOO_LARGE)
    with pytest.raises(
        WriteRefusedError, match=r"one record has .* raise max\.message\.bytes"
    ) as raised:
        by_manifest.publish_once(settings, [task], 0)
    assert "kafka.batch.size" not in str(raised.value)


def test_a_giant_record_among_small_ones_needs_no_smaller_batch(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    settings = options(tmp_path, batch_bytes_max=100_000)
    cluster.batch_bytes_max = dict.fromkeys(cluster.logs, 1_000)
    values = [b"small", b"g" * 5_000, b"small"]
    giant = pa.RecordBatch.from_pydict({"key": [b"k"] * 3, "value": values})
    with pytest.raises(
        WriteRefusedError, match=r"one record of a batch of 3 .* raise max\.message\.bytes"
    ) as raised:
        by_manifest.publish_once(settings, [stage(settings, giant)], 0)
    assert "kafka.batch.size" not in str(raised.value)


def test_a_driver_that_plans_while_another_publishes_and_commits_sends_nothing(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead leader holds the plan up, the driver is killed but for the process that plans."""
    settings = options(tmp_path)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 30))], 0)
    plan = by_manifest.plan

    def held_up(*arguments: Any) -> Any:
        monkeypatch.setattr(by_manifest, "plan", plan)
        planned = plan(*arguments)
        again = [stage(settings, rows(40, 20)), stage(settings, rows(30, 10))]
        assert by_manifest.publish_once(settings, again, 1) > 0
        return planned

    monkeypatch.setattr(by_manifest, "plan", held_up)
    assert by_manifest.publish_once(settings, [stage(settings, rows(30, 30))], 1) == 0
    assert values(cluster) == expected(0, 60)
    assert [each.name for each in (tmp_path / "app").iterdir() if each.is_file()] == [
        "committed.json"
    ]
    by_manifest.publish_once(settings, [stage(settings, rows(60, 30))], 2)
    assert values(cluster) == expected(0, 90)


def test_the_slower_of_two_publishing_drivers_takes_no_identity(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was thought dead is ahead by more batches than a broker remembers."""
    settings = options(tmp_path, batch_bytes_max=100)
    connected, ledger = settings.cluster.connect(), CommitLog(open_store(str(tmp_path)), "app")
    manifest = ledger.prepare(
        *by_manifest.plan(connected, ledger.committed(), [stage(settings, rows(0, 900))], 0, ORIGIN)
    )
    batches = list(manifest.outgoing(ledger.store))
    assert len(batches) > 60
    rivals = [
        batches[:30],
        batches[30:60],
    ]  # each of them more than a broker remembers of a partition

    class Overtaken(Publisher):
        def publish(self, batches: Iterable[Outgoing]) -> None:
            if rivals:
                Publisher(connected, manifest.identity, settings).publish(rivals.pop(0))
            super().publish(batches)

    monkeypatch.setattr(by_manifest, "Publisher", Overtaken)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 900))], 0)
    assert values(cluster) == expected(0, 900)
    assert ledger.committed().identity == manifest.identity


@pytest.mark.slow
def test_identities_that_are_never_taken_are_not_taken_for_ever(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.patience_ms = 100.0
    settings = options(tmp_path)
    refused = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    monkeypatch.setattr(cluster, "_append", lambda *_: refused)
    with pytest.raises(ClusterUnreachableError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        by_manifest.publish_once(settings, [stage(settings, rows(0, 10))], 0)
    monkeypatch.undo()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: cluster)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 10))], 0)
    assert values(cluster) == expected(0, 10)


@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_the_second_of_two_publishing_drivers_accepts_the_commit(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: int
) -> None:
    """The first has cleared the manifest and the files."""
    settings = options(tmp_path, inline_bytes_max=inline)
    connected, ledger = settings.cluster.connect(), CommitLog(open_store(str(tmp_path)), "app")
    before = ledger.committed()
    manifest = ledger.prepare(
        *by_manifest.plan(connected, before, [stage(settings, rows(0, 90))], 0, ORIGIN)
    )
    batches = list(manifest.outgoing(ledger.store))

    class Overtaken(Publisher):
        def publish(self, outgoing: Iterable[Outgoing]) -> None:
            Publisher(connected, manifest.identity, settings).publish(batches)
            ledger.commit(manifest, before)
            super().publish(outgoing)

    monkeypatch.setattr(by_manifest, "Publisher", Overtaken)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 90))], 0)
    assert values(cluster) == expected(0, 90)
    assert ledger.committed().batch == 0


class LockedOut(FakeCluster):
    """Brokers that this writer cannot authenticate to."""

    asked = 0

    def wait(self, answer: Any) -> Any:
        self.asked += 1
        raise ChannelError("authentication", "the password is wrong")


def test_rows_are_refused_at_once_where_the_writer_is_not_let_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They were sent again for as long as a dead broker is waited for."""
    cluster = LockedOut()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: cluster)
    settings = options(tmp_path)
    with pytest.raises(WriteRefusedError, match=r"t-\d: authentication: the password is wrong"):
        by_manifest.publish_once(settings, [stage(settings, rows(0, 1))], 0)
    assert cluster.asked == 1
