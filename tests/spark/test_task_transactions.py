"""Tasks that write in transactions of their own: drivers, tasks and attempts that end anywhere.

As in :mod:`tests.spark.test_parted_checkpoints` the sink's own code runs over a model of Spark's query, on a
real cluster. After each, no transaction of the query is open and each row counts once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import OptionError, PipelineError, WriteRefusedError
from barnabas.pipeline.jobs.doctor import open_transactions
from barnabas.pipeline.options import ClusterOptions, endpoints
from barnabas.pipeline.write import by_driver, writers
from barnabas.pipeline.write.prepared import by_tasks, participants, recovery, task
from barnabas.pipeline.write.prepared.participants import BatchBegun, Participant
from barnabas.pipeline.write.publisher import FencedError
from barnabas.pipeline.write.staged_task import StagedTask
from barnabas.pipeline.write.transaction import DriverTransaction
from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.spark.conftest import MakeTopic
from tests.spark.test_parted_checkpoints import TASKS, Crash, Target, words
from tests.unit.pipeline.streaming_query import PARTITIONS, Query, rows_of


@pytest.fixture
def target(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> Iterator[Target]:
    made = Target(bootstrap, make_topic(PARTITIONS), TASKS, tmp_path)
    yield made
    query = made.query()
    assert participants.list_open(query.options.cluster.connect(), key_of(query)) == []


def key_of(query: Query) -> str:
    return recovery.transactional_id(query.options, query.application)


def begin(query: Query) -> BatchBegun:
    begun = recovery.begin_batch(query.options, streaming=True)
    assert begun is not None
    return begun


def open_ones(query: Query) -> list[Participant]:
    return participants.list_open(query.options.cluster.connect(), key_of(query))


def raising(error: BaseException) -> Callable[..., Any]:
    def act(*args: Any, **more: Any) -> Any:
        raise error

    return act


def forget_ended() -> None:
    """As another process."""
    recovery._ended.clear()
    recovery._begun_at.clear()
    recovery._looked.clear()


POINTS = ["tasks wrote", "token unsent", "token unanswered", "token counts"]


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_ends_anywhere_lands_each_row_once(
    target: Target, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    target.query().start("a", 30)
    commit = DriverTransaction.commit

    def crash_in_commit(self: DriverTransaction) -> None:
        if point == "token unanswered":
            commit(self)
        raise Crash

    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(DriverTransaction, "abort", lambda self: None)
        patched.setattr(by_tasks, "abort_tasks", lambda *args: None)
        if point == "tasks wrote":
            patched.setattr(by_driver.BatchCommit, "run", raising(Crash()))
        elif point == "token counts":
            patched.setattr(by_tasks, "commit_listed", raising(Crash()))
        else:
            patched.setattr(DriverTransaction, "commit", crash_in_commit)
        target.query().start("a", 60)
    assert len(open_ones(target.query())) == 1
    forget_ended()
    target.query().start("a", 90)
    assert target.values() == words("a", 0, 90)


def test_a_repeated_end_counts_where_the_id_was_used_again(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next batch of the run has begun its transactions when the driver ends."""
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(DriverTransaction, "abort", lambda self: None)
        for batch in target.query().batches("a", 90):
            if batch == 0:
                patched.setattr(by_driver.BatchCommit, "run", raising(Crash()))
    forget_ended()
    target.query().start("a", 90)
    assert target.values() == words("a", 0, 90)


def test_attempts_that_spark_gave_up_are_aborted_behind_the_token(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed worker and a speculative twin have written and say nothing more."""
    query = target.query()
    begun, run, rows = begin(query), str(uuid.uuid4()), rows_of("a", 0, 30)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(task.TaskWriter, "abort", lambda self: None)
        patched.setattr(task.TaskWriter, "finish", crash_when_written)
        query.attempt(begun, rows, run, 0)
    query.attempt(begun, rows, run, 0)
    chosen = query.attempt(begun, rows, run, 0)
    assert len(open_ones(query)) == 3
    writers.publish(query.options, [chosen], 0)
    assert open_ones(query) == []
    assert target.values() == words("a", 0, 30)


def crash_when_written(self: task.TaskWriter) -> StagedTask:
    self._flush()
    raise Crash


def test_an_attempt_that_fails_aborts_its_transaction(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = target.query()
    begun = begin(query)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(task.TaskWriter, "finish", crash_when_written)
        query.attempt(begun, rows_of("a", 0, 30), "", 0)
    assert open_ones(query) == []
    query.start("a", 30)
    assert target.values() == words("a", 0, 30)


def test_a_driver_that_was_overtaken_commits_nothing(target: Target) -> None:
    target.query().start("a", 30)
    former, later = target.query(), target.query()
    run = str(uuid.uuid4())
    written = former.attempt(begin(former), rows_of("a", 30, 60), run, 1)
    begun = begin(later)
    with pytest.raises(WriteRefusedError, match="Another driver with transactional id"):
        writers.publish(former.options, [written], 1)
    writers.abort(former.options, [written], 1)
    again = later.attempt(begun, rows_of("a", 30, 60), str(uuid.uuid4()), 1)
    writers.publish(later.options, [again], 1)
    assert target.values() == words("a", 0, 60)


def test_a_driver_that_was_overtaken_finds_the_batch_written(target: Target) -> None:
    target.query().start("a", 30)
    former, later = target.query(), target.query()
    entry = later.checkpoint / "offsets" / "1"
    entry.write_text('{"time": 7, "end": 60}')
    written = former.attempt(begin(former), rows_of("a", 30, 60), str(uuid.uuid4()), 1)
    later.start("a", 60)
    assert writers.publish(former.options, [written], 1) == 0
    assert target.values() == words("a", 0, 60)


def test_an_overtaken_driver_aborts_nothing_of_a_later_one(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds transactions open that are of the driver which came meanwhile."""
    former, later = target.query(), target.query()
    later.start("a", 30)
    run, key = str(uuid.uuid4()), key_of(later)
    transaction = DriverTransaction(former.options.cluster.connect(), former.options, key)
    transaction.begin()
    written = later.attempt(begin(later), rows_of("a", 30, 60), run, 1)
    with pytest.raises(FencedError):
        recovery.recover(former.options, transaction)
    assert open_ones(later) == [written.participant]
    writers.publish(later.options, [written], 1)
    assert target.values() == words("a", 0, 60)


@pytest.mark.parametrize("counts", [True, False])
def test_an_abort_after_a_commit_without_answer_asks_the_token(
    target: Target, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    query = target.query()
    written = query.attempt(begin(query), rows_of("a", 0, 30), str(uuid.uuid4()), 0)
    commit = DriverTransaction.commit

    def unanswered(self: DriverTransaction) -> None:
        if counts:
            commit(self)
        raise Crash

    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(DriverTransaction, "commit", unanswered)
        patched.setattr(DriverTransaction, "abort", lambda self: None)
        writers.publish(query.options, [written], 0)
    writers.abort(query.options, [written], 0)
    assert open_ones(query) == []
    assert target.values() == (words("a", 0, 30) if counts else words("a", 0, 0))
    with monkeypatch.context() as patched:  # nothing may be sent after the abort
        patched.setattr(DriverTransaction, "begin", raising(AssertionError()))
        with pytest.raises(PipelineError, match=r"Another driver|was written before"):
            writers.publish(query.options, [written], 0)


def test_forget_ends_what_a_dropped_query_left_open(
    target: Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    query = target.query()
    query.start("a", 30)
    query.attempt(begin(query), rows_of("a", 30, 60), str(uuid.uuid4()), 1)
    ledger = ["--bootstrap-server", target.bootstrap, key_of(query)]
    assert main(["pipeline", "ledger", "show", "--json", *ledger]) == 0
    [left] = open_ones(query)
    assert left.name(key_of(query)) in capsys.readouterr().out
    assert main(["pipeline", "ledger", "forget", *ledger, "--yes"]) == 0
    assert open_ones(query) == []
    assert target.values() == words("a", 0, 30)


def test_forget_commits_what_the_token_lists_first(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = target.query()
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(by_tasks, "commit_listed", raising(Crash()))
        query.start("a", 30)
    ledger = ["--bootstrap-server", target.bootstrap, key_of(query)]
    assert main(["pipeline", "ledger", "forget", *ledger, "--yes"]) == 0
    assert target.values() == words("a", 0, 30)


def test_few_rows_go_through_the_driver(target: Target) -> None:
    query = target.query(task_transactions="auto")
    begun = begin(query)
    few = query.attempt(begun, rows_of("a", 0, 30), str(uuid.uuid4()), 0)
    assert few.participant is None
    many = target.query(task_transactions="auto", inline_bytes_max=100)
    written = many.attempt(begun, rows_of("b", 0, 30), str(uuid.uuid4()), 0)
    assert written.participant is not None
    writers.publish(query.options, [few, written], 0)
    assert target.values() == words("a", 0, 30) + words("b", 0, 30)


def test_tasks_always_in_transactions_need_a_name(target: Target) -> None:
    query = target.query(checkpoint=None, staging=None)
    with pytest.raises(OptionError, match="taskTransactions=always is not possible"):
        recovery.begin_batch(query.options, streaming=False)


def test_a_cluster_without_two_phase_commit_goes_through_the_driver(tmp_path: Path) -> None:
    off = {"transaction.two.phase.commit.enable": "false"}
    with Cluster(nodes=1, settings=off) as cluster:
        query = Query(
            tmp_path / "checkpoint",
            cluster=ClusterOptions(endpoints(cluster.bootstrap)),
            delivery="exactly-once",
            task_transactions="auto",
        )
        assert recovery.begin_batch(query.options, streaming=True) is None
        always = replace(query.options, task_transactions="always")
        with pytest.raises(OptionError, match="do not serve two-phase commit"):
            recovery.begin_batch(always, streaming=True)


def test_the_doctor_says_which_query_holds_readers(target: Target) -> None:
    query = target.query()
    query.attempt(begin(query), rows_of("a", 0, 30), str(uuid.uuid4()), 0)
    now_s = time.time()
    [young] = open_transactions(target.bootstrap, now_s)
    [old] = open_transactions(target.bootstrap, now_s + 3600)
    assert young.is_well
    assert not old.is_well
    assert f"ledger forget --bootstrap-server {target.bootstrap} {key_of(query)}" in old.said
    query.start("a", 30)
    assert open_transactions(target.bootstrap, now_s) == []
    assert target.values() == words("a", 0, 30)


def test_a_coordinator_without_two_phase_commit_leaves_rows_to_the_driver(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while it is enabled node by node."""
    query = target.query(task_transactions="auto", inline_bytes_max=100)
    begun = begin(query)
    with monkeypatch.context() as patched:
        refusal = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "off")
        patched.setattr(DriverTransaction, "begin", raising(refusal))
        staged = query.attempt(begun, rows_of("a", 0, 30), str(uuid.uuid4()), 0)
    assert staged.participant is None
    writers.publish(query.options, [staged], 0)
    assert target.values() == words("a", 0, 30)


def test_small_batches_ask_no_coordinator_what_is_open(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(cluster: ClusterClient, key: str) -> list[Participant]:
        asked.append(key)
        return participants.list_open(cluster, key)

    monkeypatch.setattr(recovery, "list_open", counted)
    monkeypatch.setattr(recovery, "LOOK_S", 1e9)
    query = target.query(task_transactions="auto")
    query.start("a", 120)
    first = len(asked)
    assert first <= 2
    query.start("a", 240)
    assert len(asked) == first
    large = target.query(task_transactions="auto", inline_bytes_max=10)
    large.start("a", 300)
    query.start("a", 330)
    assert len(asked) > first
    assert target.values() == words("a", 0, 330)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_query_whose_tasks_have_no_transactions_any_more_ends_those_it_left(
    target: Target, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """`is_committed`: the token lists them, and its driver ends before it commits them."""
    query = target.query()
    query.start("a", 30)
    if is_committed:
        with monkeypatch.context() as patched, pytest.raises(Crash):
            patched.setattr(by_tasks, "commit_listed", raising(Crash()))
            query.start("a", 60)
    else:
        query.attempt(begin(query), rows_of("b", 0, 30), str(uuid.uuid4()), 1)
    assert open_ones(query)
    forget_ended()
    target.query(task_transactions="never").start("a", 120)
    assert open_ones(query) == []
    assert target.values() == words("a", 0, 120)


def test_a_small_batch_that_failed_has_what_it_left_swept(target: Target) -> None:
    """A batch of the same process began and was not committed."""
    query = target.query(task_transactions="auto")
    query.start("a", 90)
    large = target.query(task_transactions="auto", inline_bytes_max=10)
    large.attempt(begin(large), rows_of("a", 90, 120), str(uuid.uuid4()), 3)
    assert len(open_ones(query)) == 1
    begin(query)
    assert open_ones(query) == []
    query.start("a", 120)
    assert target.values() == words("a", 0, 120)
