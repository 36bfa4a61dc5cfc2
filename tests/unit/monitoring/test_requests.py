"""Requests by phase, and records and bytes by topic, as a listener's observer counts them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics import parser

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.monitoring.exposition import Exposition
from barnabas.monitoring.sources.requests import PHASES, RequestSource
from barnabas.monitoring.table import metrics
from barnabas.record.builder import build_batch
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.codec import encode_bytes
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import FetchRequest, ReplicaState
from barnabas.wire.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.request import Api, Parked, Working
from barnabas.wire.request_timing import RequestTiming
from barnabas.wire.server import RequestServer
from tests.unit.client.loopback import World
from tests.unit.wire.test_server import feed, frame, open_connection

families_of: Any = parser.text_string_to_metric_families
ORDERS = Uuid(b"o" * 16)
BATCH = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=1)


@pytest.fixture
def image() -> MetadataImage:
    found = MetadataImage()
    found.replay(TopicRecord(name="orders", topic_id=ORDERS))
    return found


@pytest.fixture
def source(image: MetadataImage) -> RequestSource:
    broker: Any = SimpleNamespace(image=image)
    return RequestSource(lambda: broker)


def page_of(source: RequestSource) -> dict[str, float]:
    """Values by sample and labels, of a page that OpenMetrics' own parser has read."""
    page = Exposition(metrics())
    for _ in source.steps(page):
        pass
    return {
        "".join([sample.name, *(f" {key}={value}" for key, value in sample.labels.items())]): (
            sample.value
        )
        for family in families_of(page.text(open_metrics=True).decode())
        for sample in family.samples
    }


def topic_value(source: RequestSource, name: str, topic: str = "orders") -> float:
    return page_of(source)[f"kafka_server_brokertopicmetrics_{name}_total topic={topic}"]


def produced(*codes: int, by_id: bool = True) -> tuple[ProduceRequest, ProduceResponse]:
    """A request with one batch for each partition, and its answer with these error codes."""
    key: dict[str, Any] = {"topic_id": ORDERS} if by_id else {"name": "orders"}
    request = ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                partition_data=[
                    PartitionProduceData(index=index, records=BATCH) for index in range(len(codes))
                ],
                **key,
            )
        ],
    )
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                partition_responses=[
                    PartitionProduceResponse(index=index, error_code=code)
                    for index, code in enumerate(codes)
                ],
                **key,
            )
        ]
    )
    return request, response


def timing(key: ApiKey) -> RequestTiming:
    unobserved: Any = None
    return RequestTiming(unobserved, int(key), 0.0, 0.0)


@pytest.mark.parametrize("by_id", [True, False])
def test_only_batches_that_were_taken_count(source: RequestSource, by_id: bool) -> None:
    request, response = produced(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, by_id=by_id)
    source.answered(timing(ApiKey.PRODUCE), request, response)
    source.answered(timing(ApiKey.PRODUCE), request, None)  # acks=0
    assert topic_value(source, "messagesin") == 2 * 2 + 3 * 2
    assert topic_value(source, "bytesin") == 5 * len(BATCH)
    assert topic_value(source, "totalproducerequests") == 6


def test_clients_that_have_to_learn_the_leader_are_no_failures(source: RequestSource) -> None:
    request, response = produced(
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD
    )
    source.answered(timing(ApiKey.PRODUCE), request, response)
    assert topic_value(source, "failedproducerequests") == 2


def test_followers_and_consumers_are_counted_apart(source: RequestSource) -> None:
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic_id=ORDERS,
                partitions=[
                    PartitionData(records=BATCH),
                    PartitionData(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
                ],
            )
        ]
    )
    follower = FetchRequest(replica_state=ReplicaState(replica_id=2))
    for request in (FetchRequest(), follower):
        observed = timing(ApiKey.FETCH)
        source.answered(observed, request, response)
        source.sent([observed], 1.0)
    assert topic_value(source, "bytesout") == len(BATCH)
    assert topic_value(source, "totalfetchrequests") == 2
    assert topic_value(source, "failedfetchrequests") == 1
    page = page_of(source)
    assert page["kafka_server_brokertopicmetrics_replicationbytesout_total"] == len(BATCH)
    for name in ("FetchConsumer", "FetchFollower"):
        assert page[f"kafka_network_requestmetrics_requests_total request={name}"] == 1


def test_a_fetch_of_the_quorum_is_a_followers(source: RequestSource) -> None:
    quorums: Any = SimpleNamespace()
    observed = timing(ApiKey.FETCH)
    source.answered(observed, quorums, quorums)
    source.sent([observed], 1.0)
    assert page_of(source)["kafka_network_requestmetrics_requests_total request=FetchFollower"] == 1


def test_counts_of_unknown_and_of_deleted_topics_are_not_kept(
    source: RequestSource, image: MetadataImage
) -> None:
    request, response = produced(0)
    source.answered(timing(ApiKey.PRODUCE), request, response)
    for topic in request.topic_data:
        topic.topic_id = Uuid(b"x" * 16)
    source.answered(timing(ApiKey.PRODUCE), request, response)
    assert topic_value(source, "messagesin") == 2
    image.topics_by_name.clear()
    assert not [key for key in page_of(source) if "topic=" in key]


class Listener:
    """A listener with one API, whose requests are observed; a second of its clock is a step."""

    def __init__(self, source: RequestSource, answer: Any) -> None:
        self.world = World()
        table = ApiTable()
        api = Api(ApiKey.FETCH, FetchRequest, lambda request, code, text: None)
        table.add_handler(api, self._handle, None)
        self.answer = answer
        self.server = RequestServer(self.world, "P", table)
        self.server.observer = source
        self.connection, self.stream = open_connection(self.server)

    def _handle(self, request: FetchRequest, ctx: object, role: None) -> Any:
        self.world.now += 3.0
        return self.answer

    def ask(self) -> None:
        feed(self.connection, frame(ApiKey.FETCH, 12, encode_bytes(FetchRequest(), 12)))


def phases_ms(source: RequestSource) -> dict[str, float]:
    page = page_of(source)
    return {
        phase: 1000 * page[f"barnabas_request_seconds_sum request=FetchConsumer phase={phase}"]
        for phase in PHASES
    }


def test_the_time_of_a_handler_and_of_others_are_phases(source: RequestSource) -> None:
    parked = Parked()
    listener = Listener(source, parked)
    listener.ask()
    listener.world.now += 40.0
    parked.complete(FetchResponse())
    assert phases_ms(source) == pytest.approx(
        {"queue": 0, "local": 3, "remote": 40, "throttle": 0, "send": 0, "total": 43}
    )
    name = "barnabas_request_seconds_bucket request=FetchConsumer phase=remote le="
    page = page_of(source)
    assert [page[f"{name}{bound}"] for bound in ("0.025", "0.05", "+Inf")] == [0, 1, 1]


def test_work_in_parts_is_the_handlers_time(source: RequestSource) -> None:
    work = Working()
    listener = Listener(source, work)
    listener.ask()
    listener.world.now += 40.0
    work.complete(FetchResponse())
    assert phases_ms(source)["local"] == pytest.approx(43)
    assert phases_ms(source)["remote"] == 0


def test_a_request_behind_another_waits_in_the_queue(source: RequestSource) -> None:
    work = Working()
    listener = Listener(source, work)
    listener.ask()
    listener.ask()
    listener.answer = FetchResponse()
    listener.world.now += 40.0
    work.complete(FetchResponse())
    work.release()
    assert phases_ms(source)["queue"] == pytest.approx(40)


def test_an_answer_waits_for_earlier_ones_in_the_phase_send(source: RequestSource) -> None:
    parked = Parked()
    listener = Listener(source, parked)
    listener.ask()
    listener.answer = FetchResponse()
    listener.ask()
    listener.world.now += 40.0
    parked.complete(FetchResponse())
    assert phases_ms(source)["send"] == pytest.approx(40)
    assert phases_ms(source)["total"] == pytest.approx((3 + 3 + 40) + (3 + 40))


def test_requests_without_a_response_do_not_pile_up(source: RequestSource) -> None:
    listener = Listener(source, None)
    for _ in range(3):
        listener.ask()
    assert not listener.connection.responses.timings
    page = page_of(source)
    assert page["kafka_network_requestmetrics_requests_total request=FetchConsumer"] == 3
