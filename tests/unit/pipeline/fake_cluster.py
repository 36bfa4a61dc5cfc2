"""A cluster in memory that tells duplicates as brokers do, and a crash at any of its calls.

Keeps the last five batches per producer and partition and answers OUT_OF_ORDER_SEQUENCE_NUMBER for
older ones as for a gap; `forget_producers` is what 24 hours do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from barnabas.client.client import Client
from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata
from barnabas.client.network.connection import ChannelError
from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.host.programs.blocking_ports import BlockingPorts, wait_for
from barnabas.pipeline.cluster_client import PartitionLeader
from barnabas.pipeline.offsets import EARLIEST
from barnabas.record.batch import HEADER_SIZE, BatchHeader, iterate
from barnabas.types import Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch_response, produce_response
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.metadata_request import MetadataRequest
from barnabas.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce_request import ProduceRequest

T = TypeVar("T")

BROKER = Endpoint("fake", 9092)
TOPIC_ID = Uuid(b"fake-topic-id-16")
WINDOW = 5


class Crash(Exception):
    """The process ends here."""


class Countdown:
    """Raises `Crash` at the n-th `tick`; 0 never."""

    def __init__(self, n: int = 0) -> None:
        self.left = n
        self.ticks = 0

    def tick(self) -> None:
        self.ticks += 1
        self.left -= 1
        if self.left == 0:
            raise Crash


class FakeCluster:
    """One topic of `partitions` partitions. `countdown` ticks before and after every append."""

    def __init__(self, partitions: int = 3) -> None:
        self.patience_ms = 20_000.0
        self.request_timeout_ms = 1_000.0
        self.countdown = Countdown()
        self.logs: dict[TopicPartition, list[bytes]] = {
            TopicPartition("t", each): [] for each in range(partitions)
        }
        self.ends = dict.fromkeys(self.logs, 0)
        self.begins: dict[TopicPartition, int] = {}
        """Log starts that are not 0."""
        self.lost_answers = 0
        """So many answers to produce requests do not arrive though the batches are stored."""
        self.topic_id = TOPIC_ID
        self.fetches = 0
        self.fetched_batches_max: int | None = None
        """So many batches come with a fetch."""
        self.batch_bytes_max: dict[TopicPartition, int] = {}
        """Partitions that refuse larger batches."""
        self.moved = 0
        """So many produce requests go to a broker that does not lead any more."""
        self._recent: dict[tuple[TopicPartition, int], list[tuple[int, int]]] = {}
        self._next_producer = 100
        self._answers: dict[int, Any] = {}

    # -- what barnabas.pipeline.cluster_client.ClusterClient offers --------------------------------

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        known = {each.topic for each in self.logs}
        wanted = known if names is None else known & set(names)
        found = {}
        for name in sorted(wanted):
            indexes = tuple(each.partition for each in self.logs if each.topic == name)
            partitions = {index: PartitionMetadata(1, 1) for index in indexes}
            found[name] = TopicMetadata(name, self.topic_id, partitions)
        return found

    def topic(self, name: str, *, create: bool = False) -> TopicMetadata | None:
        return self.topics([name]).get(name)

    def partition_count(self, name: str) -> int:
        return len(self.logs)

    def leader(self, partition: TopicPartition) -> PartitionLeader:
        return PartitionLeader(BROKER, 1)

    def forget(self, topic: str) -> None:
        """There is nothing to learn again."""

    def ask_another(self) -> None:
        """There is no other."""

    def init_producer_id(self) -> tuple[int, int]:
        self._next_producer += 1
        return self._next_producer, 0

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return {
            each: OffsetAndTimestamp(
                self.begins.get(each, 0) if when == EARLIEST else self.ends[each], -1
            )
            for each, when in at.items()
            if each in self.logs
        }

    def run(self, begin: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """The client of each run is a new process: what a crash leaves under way ends with it."""
        ports = BlockingPorts()
        client = Client(ports, [BROKER])
        try:
            client.cluster.learn(self._metadata())
            client.channels.send = partial(self._send, ports)  # type: ignore[method-assign]
            return wait_for(ports.loop, client.tasks.start(begin(client), lambda _: None))
        finally:
            client.close()
            ports.close()

    def _send(
        self,
        ports: BlockingPorts,
        target: Endpoint,
        request: Any,
        on_done: Callable[[Any], None],
        *,
        timeout_ms: float,
        at_most: int | None = None,
        **_: Any,
    ) -> None:
        """A crash ends the loop, and with it the run."""
        try:
            if isinstance(request, MetadataRequest):
                answer: Any = self._metadata()
            else:
                answer = self.submit(target, request, timeout_ms=timeout_ms, at_most=at_most)
        except Crash:
            answer = Crash()

        def arrive() -> None:
            if isinstance(answer, Crash):
                raise answer
            try:
                response = self.wait(answer)
            except ChannelError as error:
                response = error
            on_done(response)

        ports.loop.call_soon(arrive)

    def _metadata(self) -> MetadataResponse:
        topics = [
            MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=1)
                    for index in topic.partitions
                ],
            )
            for topic in self.topics().values()
        ]
        broker = MetadataResponseBroker(node_id=1, host=BROKER.host, port=BROKER.port)
        return MetadataResponse(brokers=[broker], topics=topics)

    def submit(
        self, endpoint: Endpoint, request: Any, *, timeout_ms: float, at_most: int | None = None
    ) -> Any:
        if isinstance(request, FetchRequest):
            return self._fetch(request)
        assert isinstance(request, ProduceRequest)
        return self._produce(request)

    def wait(self, answer: Any) -> Any:
        if isinstance(answer, ChannelError):
            raise answer
        return answer

    def _fetch(self, request: FetchRequest) -> fetch_response.FetchResponse:
        asked = request.topics[0].partitions[0]
        partition = TopicPartition("t", asked.partition)
        self.fetches += 1
        batches = [
            batch
            for batch in self.logs[partition]
            if header_of(batch).last_offset >= asked.fetch_offset
        ]
        run = b"".join(batches[: self.fetched_batches_max])
        data = fetch_response.PartitionData(
            partition_index=asked.partition, high_watermark=self.ends[partition], records=run
        )
        return fetch_response.FetchResponse(
            responses=[fetch_response.FetchableTopicResponse(topic="t", partitions=[data])]
        )

    def _produce(self, request: ProduceRequest) -> Any:
        answers = []
        for data in request.topic_data[0].partition_data:
            partition = TopicPartition("t", data.index)
            assert isinstance(data.records, memoryview)
            self.countdown.tick()
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self.moved:
                self.moved -= 1
            else:
                code = self._append(partition, bytes(data.records))
            self.countdown.tick()
            answers.append(
                produce_response.PartitionProduceResponse(index=data.index, error_code=code)
            )
        if self.lost_answers:
            self.lost_answers -= 1
            return ChannelError("closed", "the answer is lost")
        topic = produce_response.TopicProduceResponse(name="t", partition_responses=answers)
        return produce_response.ProduceResponse(responses=[topic])

    # -- the log ---------------------------------------------------------------------------------

    def _append(self, partition: TopicPartition, batch: bytes) -> ErrorCode:
        (only,) = iterate(batch, crc=True)
        header = only.header
        if len(batch) > self.batch_bytes_max.get(partition, len(batch)):
            return ErrorCode.MESSAGE_TOO_LARGE
        recent = self._recent.setdefault((partition, header.producer_id), [])
        this = (header.base_sequence, header.record_count)
        if this in recent:
            return ErrorCode.NONE
        if recent:
            expected = recent[-1][0] + recent[-1][1]
            if header.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        recent.append(this)
        del recent[:-WINDOW]
        stored = bytearray(batch)
        stored[:8] = self.ends[partition].to_bytes(8, "big")
        self.logs[partition].append(bytes(stored))
        self.ends[partition] += header.record_count
        return ErrorCode.NONE

    def forget_producers(self) -> None:
        """Idle producers' state expires."""
        self._recent.clear()

    def lose_sequence(self, partition: TopicPartition) -> None:
        """The producers' state is wrong after an unclean election: the next sequence is a gap."""
        for (where, _), recent in self._recent.items():
            if where == partition and recent:
                recent[:] = [(0, 1)]


def header_of(batch: bytes) -> BatchHeader:
    (only,) = iterate(batch)
    assert len(batch) >= HEADER_SIZE
    return only.header
