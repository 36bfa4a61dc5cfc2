"""At least once: a task sends its own rows, each once per attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.options import sink_options
from barnabas.pipeline.write import direct
from barnabas.pipeline.write.writers import BatchWriter
from tests.unit.pipeline.fake_cluster import FakeCluster
from tests.unit.pipeline.test_exactly_once import options, rows, values


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: fake)
    return fake


def expected(count: int) -> Counter[bytes]:
    return Counter(b"v%d" % n for n in range(count))


@pytest.mark.slow
def test_a_task_sends_its_rows_in_portions_and_the_driver_none(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "PORTION_BYTES", 700)
    cluster.lost_answers = 2
    writer = BatchWriter(options(tmp_path, delivery="at-least-once"))
    task = writer.write(iter([rows(0, 100), rows(100, 100)]))
    assert values(cluster) == expected(200)
    writer.commit([task])
    assert values(cluster) == expected(200)
    assert not task.chunks
    assert not task.data


def test_a_portion_whose_producer_was_forgotten_is_sent_again(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "PORTION_BYTES", 1)

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(0, 100)
        cluster.lose_sequence(next(iter(cluster.logs)))
        yield rows(100, 100)

    BatchWriter(options(tmp_path, delivery="at-least-once")).write(batches())
    assert values(cluster).keys() == expected(200).keys()


@pytest.mark.parametrize(
    ("given", "delivery", "streaming"),
    [
        ({}, "exactly-once", True),
        ({}, "at-least-once", False),
        ({"txnAppId": "a", "txnVersion": "1"}, "exactly-once", False),
        ({"delivery": "Manifest"}, "manifest", True),
    ],
)
def test_named_writes_are_exactly_once_unless_another_delivery_is_asked_for(
    given: dict[str, str], delivery: str, streaming: bool
) -> None:
    found = sink_options({"kafka.bootstrap.servers": "h:1", **given}, streaming=streaming)
    assert found.delivery == delivery


@pytest.mark.parametrize(
    "given",
    [
        {"delivery": "twice"},
        {"delivery": "at-least-once", "txnAppId": "a", "txnVersion": "1"},
        {"delivery": "manifest", "txnAppId": "a", "txnVersion": "1"},
    ],
)
def test_a_delivery_that_makes_no_sense_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        sink_options({"kafka.bootstrap.servers": "h:1", **given}, streaming=False)
