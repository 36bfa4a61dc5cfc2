"""Brokers with just enough behind their handlers to hold a client to its promises.

A partition is a list of batches as bytes with what an idempotent producer's broker must remember.
Answers can be bent: `faults` names an error for the next produce requests, `mute` swallows
answers after the write (the client cannot know what became of it).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from barnabas.client.client import Client
from barnabas.client.consumers.consumer import Consumer
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.producer import Producer
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.ports import Ports
from barnabas.record.batch import CRC_FROM, HEADER, HEADER_SIZE, BatchHeader
from barnabas.types import Endpoint, TopicPartition, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.api_versions import NodeIdentity
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import (
    fetch_request,
    fetch_response,
    find_coordinator_request,
    find_coordinator_response,
    init_producer_id_request,
    init_producer_id_response,
    list_offsets_request,
    list_offsets_response,
    metadata_request,
    metadata_response,
    offset_commit_request,
    offset_commit_response,
    offset_fetch_request,
    offset_fetch_response,
    offset_for_leader_epoch_request,
    offset_for_leader_epoch_response,
    produce_request,
    produce_response,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message
from barnabas.wire.server import RequestServer
from tests.unit.client.loopback import World


class FakePartition:
    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.epoch = 0
        self.start = self.end = 0
        self.batches: list[bytes] = []
        self.sequences: dict[tuple[int, int], tuple[int, int]] = {}

    def append(self, data: bytes) -> tuple[int, int]:
        """(error, base offset), as a leader with idempotence does."""
        header = BatchHeader._make(HEADER.unpack_from(data))
        if header.producer_id >= 0:
            key = (header.producer_id, header.producer_epoch)
            last, base = self.sequences.get(key, (-1, -1))
            if header.base_sequence <= last:
                return ErrorCode.NONE, base
            if header.base_sequence != last + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.sequences[key] = (header.last_sequence, self.end)
        batch = bytearray(data)
        batch[0:8] = self.end.to_bytes(8, "big")
        batch[12:16] = self.epoch.to_bytes(4, "big")
        self.batches.append(bytes(batch))
        base = self.end
        self.end += header.last_offset_delta + 1
        return ErrorCode.NONE, base

    def cut(self, end: int) -> None:
        """A replica leads that has nothing from `end` on, where a batch begins."""
        self.epoch += 1
        self.batches = [b for b in self.batches if int.from_bytes(b[0:8], "big") < end]
        self.end = end

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to `epoch` and where it ends; -1 where there is none."""
        headers = [BatchHeader._make(HEADER.unpack_from(batch)) for batch in self.batches]
        upto = [header for header in headers if header.leader_epoch <= epoch]
        if epoch == self.epoch:
            return epoch, self.end
        return (upto[-1].leader_epoch, upto[-1].next_offset) if upto else (-1, -1)

    def read(self, offset: int) -> bytes:
        out = b""
        for batch in self.batches:
            header = BatchHeader._make(HEADER.unpack_from(batch))
            if header.base_offset + header.last_offset_delta >= offset:
                out += batch
        return out


class FakeCluster:
    """`nodes` brokers, ids from 1; topic `t` with `partitions`, led in turn."""

    def __init__(
        self,
        nodes: int = 2,
        partitions: int = 2,
        ports: Ports | None = None,
        *,
        tells_epochs: bool = True,
        cluster_id: str = "c",
    ) -> None:
        """`ports` is the world they live in, by default one in memory; there, with another
        world, endpoints are loopback's."""
        self.world = World()
        self.ports: Ports = ports or self.world
        self.endpoints = {n: Endpoint(f"broker{n}", 9092) for n in range(1, nodes + 1)}
        if ports is not None:
            self.endpoints = dict.fromkeys(self.endpoints, Endpoint("127.0.0.1", 0))
        self.cluster_id = cluster_id
        self.topic_id = Uuid(b"t" * 16)
        self.partitions = {i: FakePartition(1 + i % nodes) for i in range(partitions)}
        self.tells_epochs = tells_epochs
        self.committed: dict[int, int] = {}
        self.committed_epochs: dict[int, int] = {}
        self.faults: deque[ErrorCode] = deque()
        self.left_out: deque[int] = deque()
        """Partitions that the next answers leave out, though what was asked is done."""
        self.mute = 0
        self.unknown = False
        """Metadata say that there is no topic."""
        self.produced = self.ids = 0
        self.servers: dict[int, RequestServer] = {}
        self.dropped: list[Parked] = []
        for node in self.endpoints:
            self.start(node)

    def start(self, node: int) -> None:
        table = ApiTable()
        for key, module, response, handle in (
            (ApiKey.METADATA, metadata_request, metadata_response, self.metadata),
            (ApiKey.PRODUCE, produce_request, produce_response, self.produce),
            (ApiKey.FETCH, fetch_request, fetch_response, self.fetch),
            (ApiKey.LIST_OFFSETS, list_offsets_request, list_offsets_response, self.list_offsets),
            (
                ApiKey.INIT_PRODUCER_ID,
                init_producer_id_request,
                init_producer_id_response,
                self.new_id,
            ),
            (
                ApiKey.FIND_COORDINATOR,
                find_coordinator_request,
                find_coordinator_response,
                self.find,
            ),
            (ApiKey.OFFSET_COMMIT, offset_commit_request, offset_commit_response, self.commit),
            (ApiKey.OFFSET_FETCH, offset_fetch_request, offset_fetch_response, self.fetch_offsets),
            (
                ApiKey.OFFSET_FOR_LEADER_EPOCH,
                offset_for_leader_epoch_request,
                offset_for_leader_epoch_response,
                self.epoch_ends,
            ),
        ):
            if key is ApiKey.OFFSET_FOR_LEADER_EPOCH and not self.tells_epochs:
                continue
            name = "".join(word.title() for word in key.name.split("_"))
            request_class: type[Message] = getattr(module, f"{name}Request")
            response_class: type[Message] = getattr(response, f"{name}Response")
            table.add_handler(
                Api(key, request_class, top_level_error(response_class)), handle, node
            )
        server = RequestServer(self.ports, "PLAINTEXT", table)
        server.identity = NodeIdentity(self.cluster_id, node)
        self.servers[node] = server
        listener = self.ports.network.listen(self.endpoints[node], server.accept)
        if self.ports is not self.world:
            self.endpoints[node] = listener.endpoint

    def kill(self, node: int, successor: int | None = None) -> None:
        del self.world.listeners[self.endpoints[node]]
        self.servers.pop(node).close()
        for partition in self.partitions.values():
            if successor is not None and partition.leader == node:
                partition.leader = successor
                partition.epoch += 1

    def client(self) -> Client:
        return Client(self.world, list(self.endpoints.values()), "test")

    def offsets(self) -> dict[TopicPartition, tuple[int, int]]:
        return {TopicPartition("t", i): (p.start, p.end) for i, p in self.partitions.items()}

    def without_one(self, answers: list[Any], index: str = "partition_index") -> list[Any]:
        """`answers` without the partition that is to be left out next."""
        if not self.left_out:
            return answers
        gone = self.left_out.popleft()
        return [answer for answer in answers if getattr(answer, index) != gone]

    # -- handlers --------------------------------------------------------------------------------

    def metadata(self, request: Any, ctx: RequestContext, node: int) -> Any:
        topics = []
        names = ["t"] if request.topics is None else [t.name for t in request.topics]
        for name in names:
            if name != "t" or self.unknown:
                topics.append(metadata_response.MetadataResponseTopic(error_code=3, name=name))
                continue
            parts = [
                metadata_response.MetadataResponsePartition(
                    partition_index=i, leader_id=p.leader, leader_epoch=p.epoch
                )
                for i, p in self.partitions.items()
            ]
            topics.append(
                metadata_response.MetadataResponseTopic(
                    name="t", topic_id=self.topic_id, partitions=parts
                )
            )
        brokers = [
            metadata_response.MetadataResponseBroker(
                node_id=n, host=self.endpoints[n].host, port=self.endpoints[n].port
            )
            for n in self.servers
        ]
        return metadata_response.MetadataResponse(
            brokers=brokers, cluster_id=self.cluster_id, controller_id=1, topics=topics
        )

    def new_id(self, request: Any, ctx: RequestContext, node: int) -> Any:
        self.ids += 1
        return init_producer_id_response.InitProducerIdResponse(
            producer_id=self.ids, producer_epoch=0
        )

    def produce(self, request: Any, ctx: RequestContext, node: int) -> Any:
        self.produced += 1
        answers = []
        for topic in request.topic_data:
            for data in topic.partition_data:
                partition = self.partitions[data.index]
                answer = produce_response.PartitionProduceResponse(index=data.index)
                if partition.leader != node:
                    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    answer.current_leader.leader_id = partition.leader
                    answer.current_leader.leader_epoch = partition.epoch
                elif self.faults:
                    answer.error_code = self.faults.popleft()
                else:
                    assert len(data.records) > HEADER_SIZE > CRC_FROM
                    answer.error_code, answer.base_offset = partition.append(bytes(data.records))
                answers.append(answer)
        if self.mute:
            self.mute -= 1
            self.dropped.append(Parked())
            return self.dropped[-1]
        return produce_response.ProduceResponse(
            responses=[
                produce_response.TopicProduceResponse(
                    name="t",
                    topic_id=self.topic_id,
                    partition_responses=self.without_one(answers, "index"),
                )
            ]
        )

    def fetch(self, request: Any, ctx: RequestContext, node: int) -> Any:
        answers = []
        for topic in request.topics:
            for wanted in topic.partitions:
                partition = self.partitions[wanted.partition]
                answer = fetch_response.PartitionData(
                    partition_index=wanted.partition, high_watermark=partition.end, records=b""
                )
                if partition.leader != node:
                    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif wanted.current_leader_epoch > partition.epoch:
                    answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
                elif wanted.current_leader_epoch not in (-1, partition.epoch):
                    answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
                elif not partition.start <= wanted.fetch_offset <= partition.end:
                    answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    answer.records = partition.read(wanted.fetch_offset)
                answers.append(answer)
        left_out = bool(self.left_out)
        answers = self.without_one(answers)
        response = fetch_response.FetchResponse(
            responses=[
                fetch_response.FetchableTopicResponse(
                    topic="t", topic_id=self.topic_id, partitions=answers
                )
            ]
        )
        if left_out or any(a.error_code or len(a.records or b"") for a in answers):
            return response
        parked = Parked()
        at = self.ports.clock.now_ms() + request.max_wait_ms

        def wait_is_over() -> None:
            parked.complete(response)

        self.ports.wakeups.call_at(at, wait_is_over)
        return parked

    def list_offsets(self, request: Any, ctx: RequestContext, node: int) -> Any:
        topics = []
        for topic in request.topics:
            parts = []
            for wanted in topic.partitions:
                partition = self.partitions[wanted.partition_index]
                parts.append(
                    list_offsets_response.ListOffsetsPartitionResponse(
                        partition_index=wanted.partition_index,
                        error_code=0 if partition.leader == node else 6,
                        offset=partition.end if wanted.timestamp == -1 else partition.start,
                    )
                )
            topics.append(
                list_offsets_response.ListOffsetsTopicResponse(
                    name=topic.name, partitions=self.without_one(parts)
                )
            )
        return list_offsets_response.ListOffsetsResponse(topics=topics)

    def epoch_ends(self, request: Any, ctx: RequestContext, node: int) -> Any:
        assert request.replica_id == -1
        topics = []
        for topic in request.topics:
            ends = []
            for wanted in topic.partitions:
                partition = self.partitions[wanted.partition]
                end = offset_for_leader_epoch_response.EpochEndOffset(partition=wanted.partition)
                if partition.leader != node:
                    end.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif wanted.current_leader_epoch != partition.epoch:
                    end.error_code = ErrorCode.FENCED_LEADER_EPOCH
                else:
                    end.leader_epoch, end.end_offset = partition.end_of(wanted.leader_epoch)
                ends.append(end)
            topics.append(
                offset_for_leader_epoch_response.OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=ends
                )
            )
        return offset_for_leader_epoch_response.OffsetForLeaderEpochResponse(topics=topics)

    def find(self, request: Any, ctx: RequestContext, node: int) -> Any:
        chosen = min(self.servers)
        return find_coordinator_response.FindCoordinatorResponse(
            coordinators=[
                find_coordinator_response.Coordinator(
                    key=key,
                    node_id=chosen,
                    host=self.endpoints[chosen].host,
                    port=self.endpoints[chosen].port,
                )
                for key in request.coordinator_keys
            ]
        )

    def commit(self, request: Any, ctx: RequestContext, node: int) -> Any:
        told = []
        for topic in request.topics:
            code = 0 if topic.topic_id == self.topic_id else ErrorCode.UNKNOWN_TOPIC_ID
            for p in topic.partitions:
                told.append(
                    offset_commit_response.OffsetCommitResponsePartition(
                        partition_index=p.partition_index, error_code=code
                    )
                )
                if not code:
                    self.committed[p.partition_index] = p.committed_offset
                    self.committed_epochs[p.partition_index] = p.committed_leader_epoch
        topics = [
            offset_commit_response.OffsetCommitResponseTopic(
                name="t", topic_id=self.topic_id, partitions=self.without_one(told)
            )
        ]
        return offset_commit_response.OffsetCommitResponse(topics=topics)

    def fetch_offsets(self, request: Any, ctx: RequestContext, node: int) -> Any:
        asked = request.groups[0].topics or ()
        known = all(topic.topic_id == self.topic_id for topic in asked)
        code = 0 if known else ErrorCode.UNKNOWN_TOPIC_ID
        parts = [
            offset_fetch_response.OffsetFetchResponsePartitions(
                partition_index=i,
                committed_offset=-1 if code else self.committed.get(i, -1),
                committed_leader_epoch=-1 if code else self.committed_epochs.get(i, -1),
                metadata="",
                error_code=code,
            )
            for i in self.partitions
        ]
        topic = offset_fetch_response.OffsetFetchResponseTopics(
            name="t", topic_id=self.topic_id, partitions=self.without_one(parts)
        )
        group = offset_fetch_response.OffsetFetchResponseGroup(group_id="g", topics=[topic])
        return offset_fetch_response.OffsetFetchResponse(groups=[group])


def write(
    cluster: FakeCluster, producer: Producer, count: int, partition: int | None = None
) -> list[TaskOutcome[Delivery]]:
    return [
        producer.send(ProducerRecord("t", b"%d" % i, partition=partition)) for i in range(count)
    ]


def read_all(cluster: FakeCluster, consumer: Consumer, count: int) -> list[Any]:
    got: list[Any] = []
    for _ in range(200):
        cluster.world.run(cluster.world.now + 20)
        got += consumer.poll(7)
        if len(got) >= count:
            break
    return got
