"""Requests by API, with the time of each phase, and records and bytes by topic.

The observer of a node's listeners counts as requests are answered: a partition of a Produce or Fetch costs
some additions, a record nothing. Phases that took no time cost nothing either. A topic's counts end with the
topic.

Source of the phases: Kafka's RequestChannel and RequestMetrics; of the counts: BrokerTopicMetrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, cast

from barnabas.broker.broker import Broker
from barnabas.monitoring.exposition import Exposition, labels_text
from barnabas.record.batch import HEADER_SIZE
from barnabas.security.quotas.client_meter import is_follower
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.messages.produce_request import ProduceRequest
from barnabas.wire.messages.produce_response import ProduceResponse
from barnabas.wire.request_timing import RequestTiming
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.wire.messages.share_fetch_response import ShareFetchResponse

PHASES = ("queue", "local", "remote", "throttle", "send", "total")
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histograms' buckets."""
_BOUNDS_MS = tuple(bound * 1000 for bound in BOUNDS_S)
SECONDS = "barnabas_request_seconds{request,phase}"
REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*"
TOPIC = "kafka.server:type=BrokerTopicMetrics,name={},topic=*"
REPLICATED = "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec"
_last_offset_delta = Struct(">i").unpack_from
LAST_OFFSET_DELTA_AT = 23
NO_FAILURE = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    )
)
"""Answers to clients whose metadata or position is old; Kafka does not count them as failures either."""


class ApiTimes:
    """The requests of one API since the process began."""

    __slots__ = ("buckets", "count", "sums_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sums_ms = [0.0] * len(PHASES)
        self.buckets = [[0] * (len(BOUNDS_S) + 1) for _ in PHASES]
        """The requests by bucket, for each phase; without those for which the phase took no time."""


class TopicCounts:
    """The traffic of clients with one topic since the process began."""

    __slots__ = (
        "bytes_in", "bytes_out", "failed_fetches", "failed_produces", "fetches", "messages_in",
        "produces",
    )  # fmt: skip

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = 0
        self.produces = self.fetches = 0
        self.failed_produces = self.failed_fetches = 0


FAMILIES = {
    TOPIC.format("MessagesInPerSec"): "messages_in",
    TOPIC.format("BytesInPerSec"): "bytes_in",
    TOPIC.format("BytesOutPerSec"): "bytes_out",
    TOPIC.format("TotalProduceRequestsPerSec"): "produces",
    TOPIC.format("TotalFetchRequestsPerSec"): "fetches",
    TOPIC.format("FailedProduceRequestsPerSec"): "failed_produces",
    TOPIC.format("FailedFetchRequestsPerSec"): "failed_fetches",
}


class RequestSource:
    """The observer of a node's listeners, and the source of what it counted. `broker` says which broker's
    topics are counted; None while there is none."""

    def __init__(self, broker: Callable[[], Broker | None]) -> None:
        self._broker = broker
        self._times: dict[tuple[int, bool], ApiTimes] = {}
        """The key is an API, and whether a replica sends it."""
        self._topics: dict[str, TopicCounts] = {}
        self._replicated_bytes = 0

    # -- observing ---------------------------------------------------------------------------------

    def answered(self, timing: RequestTiming, request: Message, response: Message | None) -> None:
        if isinstance(request, ProduceRequest):
            self._count_produce(request, cast("ProduceResponse | None", response))
        elif isinstance(request, FetchRequest):
            timing.is_of_follower = is_follower(request)
            if isinstance(response, FetchResponse):
                self._count_fetch(response, timing.is_of_follower)
        elif timing.api_key == ApiKey.SHARE_FETCH:
            if response is not None:
                self._count_share_fetch(cast("ShareFetchResponse", response))
        else:
            # The quorum reads its own form of Fetch; only its replicas send that.
            timing.is_of_follower = timing.api_key == ApiKey.FETCH

    def sent(self, timings: Sequence[RequestTiming], now_ms: float) -> None:
        for timing in timings:
            kind = timing.api_key, timing.is_of_follower
            times = self._times.get(kind)
            if times is None:
                times = self._times[kind] = ApiTimes()
            times.count += 1
            arrived_ms, began_ms, handled_ms = timing.arrived_ms, timing.began_ms, timing.handled_ms
            answered_ms = timing.answered_ms
            sums_ms, buckets = times.sums_ms, times.buckets
            phase = 0
            for took_ms in (
                began_ms - arrived_ms,
                handled_ms - began_ms,
                answered_ms - handled_ms,
                timing.throttle_ms,
                now_ms - answered_ms,
                now_ms - arrived_ms,
            ):
                if took_ms > 0:
                    sums_ms[phase] += took_ms
                    buckets[phase][bisect_left(_BOUNDS_MS, took_ms)] += 1
                phase += 1  # noqa: SIM113 - `enumerate` costs a fifth of the loop

    def name_of_topic(self, name: str, topic_id: Uuid) -> str:
        """The name of a topic that a request names by `name` or by id; empty where it is not known."""
        if not name:
            broker = self._broker()
            topic = None if broker is None else broker.image.topics_by_id.get(topic_id)
            name = "" if topic is None else topic.name
        return name

    def _topic(self, name: str, topic_id: Uuid) -> TopicCounts | None:
        name = self.name_of_topic(name, topic_id)
        counts = self._topics.get(name)
        if counts is None:
            broker = self._broker()
            if broker is None or name not in broker.image.topics_by_name:
                return None  # names that clients invent are not kept
            counts = self._topics[name] = TopicCounts()
        return counts

    def _count_produce(self, request: ProduceRequest, response: ProduceResponse | None) -> None:
        refused: set[tuple[str, Uuid, int]] = set()
        for answered in () if response is None else response.responses:
            for answer in answered.partition_responses:
                if answer.error_code:
                    refused.add((answered.name, answered.topic_id, answer.index))
                    counts = self._topic(answered.name, answered.topic_id)
                    if counts is not None and answer.error_code not in NO_FAILURE:
                        counts.failed_produces += 1
        for topic in request.topic_data:
            counts = self._topics.get(topic.name) or self._topic(topic.name, topic.topic_id)
            if counts is None:
                continue
            counts.produces += len(topic.partition_data)
            for data in topic.partition_data:
                records = data.records
                if records is None or isinstance(records, list) or len(records) < HEADER_SIZE:
                    continue
                if refused and (topic.name, topic.topic_id, data.index) in refused:
                    continue
                counts.bytes_in += len(records)
                counts.messages_in += _last_offset_delta(records, LAST_OFFSET_DELTA_AT)[0] + 1

    def _count_fetch(self, response: FetchResponse, is_of_follower: bool) -> None:
        for topic in response.responses:
            size = sum([len(data.records or ()) for data in topic.partitions])
            if is_of_follower:
                self._replicated_bytes += size
                continue
            counts = self._topic(topic.topic, topic.topic_id)
            if counts is not None:
                counts.fetches += len(topic.partitions)
                counts.bytes_out += size
                for data in topic.partitions:
                    if data.error_code and data.error_code not in NO_FAILURE:
                        counts.failed_fetches += 1

    def _count_share_fetch(self, response: ShareFetchResponse) -> None:
        for topic in response.responses:
            counts = self._topic("", topic.topic_id)
            if counts is not None:
                counts.bytes_out += sum([len(data.records or ()) for data in topic.partitions])

    # -- a page ------------------------------------------------------------------------------------

    def steps(self, page: Exposition) -> Iterator[None]:
        for (api_key, is_of_follower), times in list(self._times.items()):
            name = name_of(api_key, is_of_follower)
            request = labels_text({"request": name})
            page.add(REQUESTS, times.count, request)
            for phase, counted in enumerate(times.buckets):
                untimed = times.count - sum(counted)
                counts = [counted[0] + untimed, *counted[1:]]
                labels = labels_text({"request": name, "phase": PHASES[phase]})
                page.add_histogram(SECONDS, BOUNDS_S, counts, times.sums_ms[phase] / 1000, labels)
            yield
        broker = self._broker()
        if broker is None:
            return
        for name in [name for name in self._topics if name not in broker.image.topics_by_name]:
            del self._topics[name]
        page.add(REPLICATED, self._replicated_bytes)
        for at, (name, topic) in enumerate(list(self._topics.items())):
            labels = labels_text({"topic": name})
            for mbean, field in FAMILIES.items():
                page.add(mbean, getattr(topic, field), labels)
            if at % 100 == 0:
                yield
        yield


def name_of(api_key: int, is_of_follower: bool) -> str:
    """The API as Kafka's metrics name it: ``Produce``, ``FetchConsumer``, ``FetchFollower``."""
    name = NAMES[api_key]
    if api_key == ApiKey.FETCH:
        return name + ("Follower" if is_of_follower else "Consumer")
    return name


NAMES = {int(key): "".join(word.title() for word in key.name.split("_")) for key in ApiKey}
