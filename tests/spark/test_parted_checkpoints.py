"""Checkpoints and ledgers that part, drivers that end anywhere: in both deliveries, on a real cluster.

The driver's own code runs here over a model of Spark's query, without a JVM: :mod:`tests.spark.test_ledger`
has the same with Spark.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cli.main import main
from barnabas.pipeline.errors import LedgerError, PipelineError, WriteRefusedError
from barnabas.pipeline.options import ClusterOptions, endpoints
from barnabas.pipeline.write import transaction
from barnabas.pipeline.write.publisher import Publisher
from tests.spark.conftest import MakeTopic
from tests.spark.topics import read
from tests.unit.pipeline.streaming_query import PARTITIONS, Query

DELIVERIES = ("exactly-once", "manifest", "tasks")
TRANSACTIONS, MANIFEST, TASKS = DELIVERIES


class Crash(BaseException):
    """The driver ends here and can do nothing any more."""


class Target:
    """A topic, and queries that write to it."""

    def __init__(self, bootstrap: str, topic: str, delivery: str, here: Path) -> None:
        """`delivery`: "tasks" is exactly once by transactions of the tasks."""
        self.bootstrap, self.topic, self.here = bootstrap, topic, here
        self.ways = {"delivery": delivery}
        if delivery == TASKS:
            self.ways = {"delivery": TRANSACTIONS, "task_transactions": "always"}
        self.is_manifest = delivery == MANIFEST

    def query(self, name: str = "checkpoint", **settings: Any) -> Query:
        return Query(
            self.here / name,
            **{
                "cluster": ClusterOptions(endpoints(self.bootstrap)),
                "topic": self.topic,
                **self.ways,
                **settings,
            },
        )

    def values(self) -> Counter[str]:
        return Counter((each.value or b"").decode() for each in read(self.bootstrap, self.topic))

    def copy(self, source: str, target: str) -> None:
        shutil.rmtree(self.here / target, ignore_errors=True)
        shutil.copytree(self.here / source, self.here / target)


@pytest.fixture(params=DELIVERIES)
def target(
    request: pytest.FixtureRequest, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> Target:
    return Target(bootstrap, make_topic(PARTITIONS), request.param, tmp_path)


@pytest.fixture
def by_transactions(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> Target:
    return Target(bootstrap, make_topic(PARTITIONS), TRANSACTIONS, tmp_path)


def words(word: str, begin: int, end: int) -> Counter[str]:
    return Counter(f"{word}{n}" for n in range(begin, end))


def run_command(text: str) -> int:
    """The command line between backquotes in an error's text."""
    command = next(each for each in text.split("`") if each.startswith("barnabas pipeline ledger"))
    return main([*command.split()[1:], "--yes"])


def test_a_restored_checkpoint_loses_no_row_of_its_next_run(target: Target) -> None:
    target.query().start("old", 60)
    target.copy("checkpoint", "copy")
    target.query().start("old", 120)
    target.copy("copy", "checkpoint")
    if not target.is_manifest:  # the token is in the cluster: it was not restored
        with pytest.raises(LedgerError, match="was rolled back or begun again") as raised:
            target.query().start("new", 120)
        assert run_command(str(raised.value)) == 0
    target.query().start("new", 120)
    assert target.values() == words("old", 0, 120) + words("new", 60, 120)


def test_a_checkpoint_rolled_back_beside_its_ledger_is_refused(target: Target) -> None:
    staging = str(target.here / "ledger")
    target.query(staging=staging).start("old", 60)
    target.copy("checkpoint", "copy")
    target.query(staging=staging).start("old", 90)
    target.copy("copy", "checkpoint")
    with pytest.raises(LedgerError, match="was rolled back or begun again") as raised:
        target.query(staging=staging).start("new", 90)
    assert target.values() == words("old", 0, 90)
    assert run_command(str(raised.value)) == 0
    target.query(staging=staging).start("new", 90)
    assert target.values() == words("old", 0, 90) + words("new", 60, 90)


def test_a_clone_of_a_query_never_loses_rows_in_silence(target: Target) -> None:
    target.query().start("a", 60)
    target.copy("checkpoint", "clone")
    target.query().start("a", 90)
    settings: dict[str, Any] = {}
    if not target.is_manifest:
        with pytest.raises(LedgerError, match=r"transactional\.id of its own"):
            target.query("clone").start("b", 90)
        settings = {"transactional_id": f"clone-of-{target.topic}", "new_ledger": 2}
    target.query("clone", **settings).start("b", 90)
    target.query("clone", **settings).start("b", 120)
    target.query().start("a", 120)
    assert target.values() == words("a", 0, 120) + words("b", 60, 120)


def test_a_lost_staging_location_never_doubles_in_silence(target: Target) -> None:
    target.query().start("a", 60)
    shutil.rmtree(target.here / "checkpoint" / "barnabas")
    query = target.query()
    (target.here / "checkpoint" / "commits" / "1").unlink()  # batch 1 is asked for again
    if not target.is_manifest:
        query.start("a", 90)
        assert target.values() == words("a", 0, 90)
    else:
        with pytest.raises(LedgerError, match="no ledger of batch 1"):
            query.start("a", 90)
        assert target.values() == words("a", 0, 60)


def test_a_late_batch_without_a_token_is_refused(by_transactions: Target) -> None:
    by_transactions.query().start("a", 60)
    lost = {"transactional_id": f"another-{by_transactions.topic}"}
    with pytest.raises(LedgerError, match="no token of batch 2"):
        by_transactions.query(**lost).start("a", 90)
    by_transactions.query(**lost, new_ledger=2).start("a", 120)
    assert by_transactions.values() == words("a", 0, 120)


def test_an_application_of_two_queries_is_refused(target: Target) -> None:
    shared = {"application": f"app-{target.topic}", "staging": str(target.here / "shared")}
    target.query("one", **shared).start("a", 60)
    with pytest.raises(LedgerError, match="belongs to query"):
        target.query("two", **shared).start("b", 60)
    assert target.values() == words("a", 0, 60)


def test_a_batch_that_is_too_large_goes_out_in_smaller_batches(
    target: Target, admin: AdminClient
) -> None:
    target.topic = f"small-{target.topic}"
    topic = NewTopic(target.topic, PARTITIONS, -1, config={"max.message.bytes": "150"})
    admin.create_topics([topic])[target.topic].result(30)
    with pytest.raises(WriteRefusedError, match="MESSAGE_TOO_LARGE") as raised:
        target.query().start("a", 60)
    assert "barnabas pipeline ledger skip" in str(raised.value)
    target.query(batch_bytes_max=80).start("a", 60)
    assert target.values() == words("a", 0, 60)


@pytest.mark.parametrize("point", ["begun", "written", "end unsent", "end unanswered"])
def test_a_driver_that_ends_anywhere_lands_each_row_once(
    by_transactions: Target, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Batch 1 ends its driver; the next one asks for it again."""
    real = transaction.DriverTransaction
    write, commit = real.write, real.commit

    def crash_in_write(self: Any, batches: Any) -> None:
        if point == "written":
            write(self, batches)
        raise Crash

    def crash_in_commit(self: Any) -> None:
        if point == "end unanswered":
            commit(self)
        raise Crash

    by_transactions.query().start("a", 30)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(real, "abort", lambda self: None)
        if point in ("begun", "written"):
            patched.setattr(real, "write", crash_in_write)
        else:
            patched.setattr(real, "commit", crash_in_commit)
        by_transactions.query().start("a", 60)
    by_transactions.query().start("a", 90)
    assert by_transactions.values() == words("a", 0, 90)


def test_rows_deleted_before_the_restart_are_not_sent_twice(
    target: Target, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention removes what had landed of a batch whose driver ended in mid-publish."""
    target.query().start("a", 30)

    def crash(self: Any, batches: Any) -> None:
        publish(self, batches)
        raise Crash

    publish = Publisher.publish
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(Publisher, "publish", crash)
        patched.setattr(transaction.DriverTransaction, "abort", lambda self: None)
        target.query().start("a", 60)
    everything = [KafkaPartition(target.topic, each, -1) for each in range(PARTITIONS)]
    for future in admin.delete_records(everything).values():
        future.result(30)
    target.query().start("a", 90)
    # By transactions the deleted rows never counted, and the batch is written as a whole.
    begin = 60 if target.is_manifest else 30
    assert target.values() == words("a", begin, 90)


def test_an_earlier_driver_is_fenced_in_mid_batch(
    by_transactions: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_transactions.query().start("a", 30)
    real = transaction.DriverTransaction
    commit = real.commit

    def overtaken(self: Any) -> None:
        monkeypatch.setattr(real, "commit", commit)
        by_transactions.query().start("a", 60)  # the same batch, by a driver that began later
        commit(self)

    monkeypatch.setattr(real, "commit", overtaken)
    with pytest.raises(WriteRefusedError, match="Another driver with transactional id"):
        by_transactions.query().start("a", 60)
    by_transactions.query().start("a", 90)
    assert by_transactions.values() == words("a", 0, 90)


def test_a_query_begun_by_a_manifest_stays_with_it_until_it_is_moved(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    target = Target(bootstrap, make_topic(PARTITIONS), "manifest", tmp_path)
    target.query().start("a", 60)
    target.query(delivery="exactly-once").start("a", 90)
    ledger = next((tmp_path / "checkpoint" / "barnabas").iterdir()) / "committed.json"
    assert '"version": 2' in ledger.read_text()
    target.query(delivery="transactions").start("a", 120)
    assert '"version": 3' in ledger.read_text()
    with pytest.raises(PipelineError, match="commits in transactions"):
        target.query(delivery="manifest").start("a", 150)
    target.query(delivery="exactly-once").start("a", 150)
    assert target.values() == words("a", 0, 150)
