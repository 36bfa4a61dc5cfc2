"""One function chooses how rows are delivered; the way before transactions says how to leave it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from barnabas.client.network.connection import ChannelError
from barnabas.client.producers.transaction_coordinator import ProducerIdentity
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write import by_manifest, choice, writers
from barnabas.pipeline.write.by_driver import ByDriver
from barnabas.pipeline.write.by_manifest import ByManifest
from barnabas.pipeline.write.commit_log import CommitLog
from barnabas.pipeline.write.delivery import BatchDelivery
from barnabas.pipeline.write.direct import AtLeastOnce
from barnabas.pipeline.write.prepared.by_tasks import ByTasks
from barnabas.pipeline.write.prepared.participants import BatchBegun
from barnabas.pipeline.write.staged_task import StagedTask
from tests.unit.pipeline.fake_cluster import FakeCluster
from tests.unit.pipeline.test_exactly_once import options, rows, stage

DOCS = Path(__file__).parents[3] / "docs"
BEGUN = BatchBegun("barnabas-app", ProducerIdentity(1, 0))


class Versions(FakeCluster):
    """A cluster that serves transactions, serves none, or is older than ApiVersions."""

    def __init__(self, answer: bool | ChannelError) -> None:
        super().__init__()
        self.answer = answer

    def serves(self, api_key: int) -> bool:
        if isinstance(self.answer, ChannelError):
            raise self.answer
        return self.answer


@pytest.fixture(params=[True, False, ChannelError("unsupported", "no ApiVersions")])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Versions:
    fake = Versions(request.param)
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    monkeypatch.setattr(choice, "_with_transactions", set())
    return fake


def task(begun: BatchBegun | None = None) -> StagedTask:
    return StagedTask("app", (), b"", begun=begun)


def kind(path: Path, delivery: str, begun: BatchBegun | None = None) -> type[BatchDelivery]:
    return type(choice.to_commit(options(path, delivery=delivery), [task(begun)], 0))


def test_a_batch_is_delivered_as_option_and_cluster_have_it(
    cluster: Versions, tmp_path: Path
) -> None:
    served = cluster.answer is True
    assert kind(tmp_path, "at-least-once") is AtLeastOnce
    assert kind(tmp_path, "manifest") is ByManifest
    assert kind(tmp_path, "transactions") is ByDriver
    assert kind(tmp_path, "exactly-once") is (ByDriver if served else ByManifest)
    assert kind(tmp_path, "exactly-once", BEGUN) is ByTasks


def test_a_ledger_that_began_by_a_manifest_continues_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = Versions(True)
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    settings = options(tmp_path)
    by_manifest.publish_once(settings, [stage(settings, rows(0, 30))], 0)
    assert CommitLog(open_store(str(tmp_path)), "app").is_in_use()
    assert kind(tmp_path, "exactly-once") is ByManifest
    assert kind(tmp_path, "transactions") is ByDriver


def test_the_manifest_is_deprecated_once_for_each_query_and_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake = Versions(True)
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    monkeypatch.setattr(by_manifest, "_warned", set())
    settings = options(tmp_path)
    with caplog.at_level(logging.WARNING):
        for number in range(2):
            writers.publish(settings, [stage(settings, rows(30 * number, 30))], number)
    said = [
        line for line in caplog.messages if line.startswith("pipeline.manifest_deprecated: app")
    ]
    assert len(said) == 1
    assert "delivery=transactions moves the query" in said[0]


def test_an_aborted_batch_of_tasks_that_sent_their_rows_has_nothing_to_drop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = Versions(True)
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    settings = options(tmp_path, delivery="at-least-once")
    sent = writers.write_task(settings, None, iter([rows(0, 10)]))
    writers.abort(settings, [sent, None], 0)
    assert writers.publish(settings, [sent], 0) == 0
    assert not list(tmp_path.iterdir())


def test_both_pages_say_in_the_same_words_what_readers_see() -> None:
    begin = "In each partition a `read_committed` reader sees all of a batch or nothing of it."
    found = []
    for page in ("spark.md", "pipelines.md"):
        text = (DOCS / page).read_text()
        at = text.index(begin)
        found.append(text[at : text.index("\n\n", at)])
    assert found[0] == found[1]
