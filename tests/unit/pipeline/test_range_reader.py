"""A task reads its range whole, whichever broker answers first; missing records fail it, or are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import ClusterUnreachableError, DataLossError
from barnabas.pipeline.offsets import Range
from barnabas.pipeline.options import ClusterOptions, FetchOptions, SourceOptions
from barnabas.pipeline.read.range_reader import RangeReader
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.types import Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch_response
from barnabas.wire.messages.fetch_request import FetchRequest
from tests.unit.pipeline.fake_cluster import BROKER, TOPIC_ID, FakeCluster

WHERE = TopicPartition("t", 0)


class Moving(FakeCluster):
    """While `stale` it is a leader that leads no more: its log ends at `stale_end`, and who asks for
    more hears `stale_code`. A client that forgets what it knew of the topic learns the new leader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, records: int) -> None:
        super().__init__(1)
        self.patience_ms = 60_000.0
        self.asked_of: list[str] = []
        """Hosts that were fetched from."""
        self.nearer: Endpoint | None = None
        """The replica that the leader names to a reader of rack ``near``."""
        self.nearer_fails = False
        self.stale = False
        self.stale_code = ErrorCode.NONE
        self.stale_end = 0
        for each in range(records):
            self.logs[WHERE].append(
                bytes(build_batch([(None, b"v")], timestamp_ms=1, base_offset=each))
            )
        self.ends[WHERE] = records
        monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: self)

    def forget(self, topic: str) -> None:
        self.stale = False

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        if self.stale:
            return {each: OffsetAndTimestamp(self.stale_end, -1) for each in at}
        return super().list_offsets(at, isolation=isolation)

    def broker(self, node_id: int) -> Endpoint | None:
        assert node_id == 7
        return self.nearer

    def submit(
        self, endpoint: Endpoint, request: Any, *, timeout_ms: float, at_most: int | None = None
    ) -> Any:
        self.asked_of.append(endpoint.host)
        return super().submit(endpoint, request, timeout_ms=timeout_ms, at_most=at_most)

    def _fetch(self, request: FetchRequest) -> fetch_response.FetchResponse:
        if self.nearer is not None and (self.asked_of[-1] != "fake" or request.rack_id == "near"):
            named = 7 if self.asked_of[-1] == "fake" else -1
            if named == 7 or self.nearer_fails:
                data = fetch_response.PartitionData(
                    partition_index=0, preferred_read_replica=named, records=b""
                )
                if named != 7:
                    data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                return fetch_response.FetchResponse(
                    responses=[fetch_response.FetchableTopicResponse(topic="t", partitions=[data])]
                )
        asked = request.topics[0].partitions[0]
        code, end, records = ErrorCode.NONE, self.ends[WHERE], b""
        if self.stale:
            code, end = self.stale_code, self.stale_end
        elif not self.begins.get(WHERE, 0) <= asked.fetch_offset <= end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            return super()._fetch(request)
        data = fetch_response.PartitionData(
            partition_index=0, high_watermark=end, records=records, error_code=code
        )
        return fetch_response.FetchResponse(
            responses=[fetch_response.FetchableTopicResponse(topic="t", partitions=[data])]
        )


def read(start: int, end: int, topic_id: Uuid | None = None, **changes: Any) -> list[int]:
    options = SourceOptions(ClusterOptions((BROKER,)), **changes)
    reader = RangeReader(options.cluster.connect(), Range("t", 0, start, end, topic_id), options)
    return [batch.header.base_offset for run in reader.runs() for batch in iterate(run.records)]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE])
@pytest.mark.parametrize("strict", [True, False])
def test_a_leader_that_leads_no_more_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, strict: bool
) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.stale, cluster.stale_end, cluster.stale_code = True, 1, code
    assert read(2, 6, fail_on_data_loss=strict) == [2, 3, 4, 5]


@pytest.mark.slow
def test_a_log_that_has_lost_its_end_is_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.patience_ms = 30.0
    for start in (4, 6, 7):
        with pytest.raises(DataLossError, match=r"the log has \[0, 6\)"):
            read(start, 9)
    assert read(4, 9, fail_on_data_loss=False) == [4, 5]
    assert read(6, 9, fail_on_data_loss=False) == []
    assert read(7, 9, fail_on_data_loss=False) == []


def test_a_log_that_has_lost_its_beginning_is_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.begins[WHERE] = 3
    cluster.logs[WHERE] = cluster.logs[WHERE][3:]
    with pytest.raises(DataLossError, match=r"t-0 \[1, 3\): the log has \[3, 6\)"):
        read(1, 5)
    assert [each for each in read(1, 5, fail_on_data_loss=False) if each < 5] == [3, 4]
    assert read(1, 3, fail_on_data_loss=False) == []


@pytest.mark.slow
def test_a_deleted_topic_is_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.patience_ms = 30.0
    cluster.logs.clear()
    with pytest.raises(DataLossError, match=r"t-0 \[2, 6\): the topic was deleted"):
        read(2, 6)
    assert read(2, 6, fail_on_data_loss=False) == []


@pytest.mark.slow
def test_a_topic_that_is_deleted_between_two_questions_is_data_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.patience_ms = 30.0
    monkeypatch.setattr(cluster, "list_offsets", lambda *_, **__: {})
    with pytest.raises(DataLossError, match="the topic was deleted"):
        read(7, 9)
    assert read(7, 9, fail_on_data_loss=False) == []


def test_a_partition_without_a_leader_is_waited_for_and_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.patience_ms = 30.0
    monkeypatch.setattr(cluster, "leader", lambda _: None)
    with pytest.raises(ClusterUnreachableError, match="it has no leader"):
        read(2, 6, fail_on_data_loss=False)


def test_a_record_that_does_not_come_though_it_is_there_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.patience_ms = 30.0
    cluster.logs[WHERE].clear()
    with pytest.raises(ClusterUnreachableError, match="no record comes"):
        read(2, 6, fail_on_data_loss=False)


@pytest.mark.slow
def test_a_topic_of_another_id_is_data_loss_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.patience_ms = 30.0
    assert read(2, 6, topic_id=TOPIC_ID) == [2, 3, 4, 5]
    other = Uuid(b"an-earlier-topic")
    with pytest.raises(DataLossError, match=r"t-0 \[2, 6\): the topic was deleted and created"):
        read(2, 6, topic_id=other)
    assert read(2, 6, topic_id=other, fail_on_data_loss=False) == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_replica_in_the_readers_rack_is_read_from(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    cluster = Moving(monkeypatch, 6)
    cluster.nearer, cluster.nearer_fails = Endpoint("near", 9092), fails
    cluster.fetched_batches_max = 2
    assert read(0, 6, fetch=FetchOptions(rack="near")) == [0, 1, 2, 3, 4, 5]
    assert cluster.asked_of == [
        "fake",
        "near",
        *(["fake"] if fails else ["near"]) * (3 if fails else 2),
    ]
    cluster.asked_of.clear()
    assert read(0, 6) == [0, 1, 2, 3, 4, 5]
    assert set(cluster.asked_of) == {"fake"}
