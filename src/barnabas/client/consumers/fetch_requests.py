"""Fetch from one leader: many partitions, bytes back. No sessions; the caller keeps positions.

`ask_leader` is one request and its answer, `fetch` asks all leaders of many partitions. Runs are
views of the response's frame: nothing is copied or decoded here; `FetchedRun.records` decodes when
asked, leaving out control batches and, with `read_committed`, what belongs to aborted
transactions (KIP-98).

Source: Kafka's ``Fetcher``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client.client import API_TIMEOUT_MS, Client, raise_for
from barnabas.client.network.channels import ChannelError
from barnabas.record.batch import (
    CONTROL,
    HEADER,
    TRANSACTIONAL,
    CorruptBatchError,
    iterate,
    last_whole,
)
from barnabas.record.decode import Record, records_of
from barnabas.types import Endpoint, TopicPartition, by_topic, new_tuple
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData

ABORT = b"\x00\x00\x00\x00"
"""Key of the control record that ends an aborted transaction: version 0, type 0."""
NOTHING = memoryview(b"")


class FetchPosition(NamedTuple):
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Kafka's consumer configuration where it has it."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    read_committed: bool = False
    rack: str = ""
    """``client.rack``: leaders may name a replica that is nearer (KIP-392)."""
    request_timeout_ms: float = 30_000.0


class FetchedRun:
    """The answer of one partition's leader from `offset` on: whole batches, or an error."""

    __slots__ = (
        "_aborted", "data", "epochs", "error", "faults", "high_watermark", "last_stable_offset",
        "log_start_offset", "moved", "next_offset", "offset", "partition", "preferred",
    )  # fmt: skip

    def __init__(
        self, partition: TopicPartition, offset: int, answer: PartitionData, read_committed: bool
    ) -> None:
        """The records of `answer` may end in a batch that is cut off; it is left out."""
        self.partition = partition
        self.offset = offset
        self.high_watermark = answer.high_watermark
        self.last_stable_offset = answer.last_stable_offset
        self.log_start_offset = answer.log_start_offset
        self.preferred = answer.preferred_read_replica
        """A replica that is nearer to this client; -1: there is none."""
        self.error = KafkaError(code_of(answer.error_code)) if answer.error_code else None
        self.moved = False
        """Whether the refusal said who leads now."""
        self.next_offset = offset
        self.epochs = (-1, -1)
        """Leader epochs of the first and the last batch."""
        self.data = NOTHING
        if isinstance(answer.records, memoryview) and answer.records:
            self._keep(answer.records)
        self.faults: dict[int, str] = {}
        """The faults by base offset: batches whose records are not what their header says, which is found
        when they are decoded. What cannot be read of them is passed over."""
        self._aborted = (
            sorted((t.first_offset, t.producer_id) for t in answer.aborted_transactions)
            if read_committed and answer.aborted_transactions
            else []
        )

    def _keep(self, records: memoryview) -> None:
        last, size, fault = last_whole(records)
        if last is not None:
            self.next_offset = last.next_offset
            self.epochs = (HEADER.unpack_from(records)[2], last.leader_epoch)
        elif fault is not None:  # else the whole batches before the fault come first
            self.error = KafkaError(ErrorCode.CORRUPT_MESSAGE, str(fault))
        self.data = records[:size]

    def __repr__(self) -> str:
        return f"FetchedRun({self.partition} {self.offset}..{self.next_offset} {self.error})"

    def records(self, start: int) -> Iterator[Record]:
        """From offset `start` on. Raises `CorruptBatchError` where a batch was damaged (its CRC)."""
        ahead = self._aborted[::-1]
        aborting: set[int] = set()
        for batch in iterate(self.data, crc=True):
            header = batch.header
            last_offset = header.base_offset + header.last_offset_delta
            attributes = header.attributes
            while ahead and ahead[-1][0] <= last_offset:
                aborting.add(ahead.pop()[1])
            if attributes & CONTROL:
                if header.producer_id in aborting:
                    aborting.difference_update(
                        {header.producer_id for r in records_of(batch) if r.key == ABORT}
                    )
                continue
            if attributes & TRANSACTIONAL and header.producer_id in aborting:
                continue
            if last_offset < start:
                continue
            try:
                yield from records_of(batch, start=start)
            except CorruptBatchError as error:
                # Its CRC is right, so this is what was written, and asking again brings nothing better.
                self.faults[header.base_offset] = error.why


async def ask_leader(
    client: Client,
    leader: int,
    positions: Sequence[FetchPosition],
    settings: FetchSettings,
    purpose: str = "fetch",
) -> list[FetchedRun]:
    """One fetch of these partitions from `leader`. A partition that the answer leaves out is refused. Raises
    `ChannelError`, or `KafkaError` where the whole request was refused."""
    response: FetchResponse = await client.ask_node(
        leader,
        fetch_request(client, positions, settings),
        timeout_ms=settings.request_timeout_ms + settings.wait_ms_max,
        purpose=purpose,
    )
    raise_for(response.error_code, f"fetch from broker {leader}")
    offsets = {position.partition: position.offset for position in positions}
    endpoints = {n.node_id: Endpoint(n.host, n.port) for n in response.node_endpoints}
    runs = []
    for topic in response.responses:
        name = topic.topic or client.cluster.name_of(topic.topic_id) or ""
        for partition in topic.partitions:
            tp = new_tuple(TopicPartition, (name, partition.partition_index))
            offset = offsets.get(tp)
            if offset is None:
                continue
            run = FetchedRun(tp, offset, partition, settings.read_committed)
            if run.error is not None:
                news = partition.current_leader
                run.moved = client.cluster.learn_leader(
                    tp, news.leader_id, news.leader_epoch, endpoints.get(news.leader_id)
                )
                if run.error.code == ErrorCode.UNKNOWN_LEADER_EPOCH:
                    client.cluster.doubt_epoch(tp)
            runs.append(run)
    if len(runs) < len(offsets):
        answered = {run.partition for run in runs}
        for tp, offset in offsets.items():
            if tp not in answered:
                none = PartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                runs.append(FetchedRun(tp, offset, none, read_committed=False))
    return runs


def fetch_request(
    client: Client, positions: Sequence[FetchPosition], settings: FetchSettings
) -> FetchRequest:
    def named(tp: TopicPartition, offset: int) -> FetchPartition:
        view = client.cluster.partition(tp)
        return FetchPartition(
            partition=tp.partition,
            current_leader_epoch=-1 if view is None else view.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=settings.partition_bytes_max,
        )

    topics = by_topic((tp.topic, named(tp, offset)) for tp, offset in positions)
    return FetchRequest(
        max_wait_ms=settings.wait_ms_max,
        min_bytes=settings.bytes_min,
        max_bytes=settings.bytes_max,
        isolation_level=int(settings.read_committed),
        rack_id=settings.rack,
        topics=[
            FetchTopic(topic=name, topic_id=client.cluster.topic_id(name), partitions=parts)
            for name, parts in topics.items()
        ],
    )


async def fetch(
    client: Client,
    positions: Mapping[TopicPartition, int],
    settings: FetchSettings,
    *,
    timeout_ms: float = API_TIMEOUT_MS,
) -> dict[TopicPartition, FetchedRun]:
    """Fetch these partitions from these offsets, from all leaders at once.

    If a leader moved or died, the client looks for the new one until `timeout_ms` has passed. An answer may
    be empty (nothing came within `wait_ms_max`) or carry a permanent error (an offset out of range).
    """
    got: dict[TopicPartition, FetchedRun] = {}

    async def attempt() -> None:
        left = [FetchPosition(tp, offset) for tp, offset in positions.items() if tp not in got]
        by_leader = await _leaders(client, left)
        asked = [ask_leader(client, node, by_leader[node], settings) for node in sorted(by_leader)]
        refused: KafkaError | None = None
        for run in (run for runs in await client.tasks.gather(asked) for run in runs):
            if run.error is None or not run.error.retriable:
                got[run.partition] = run
            else:
                refused = run.error
        if refused is not None:
            raise refused

    async def attempt_or_refresh() -> None:
        try:
            await attempt()
        except (ChannelError, KafkaError):
            await client.cluster.refresh({tp.topic: None for tp in positions if tp not in got})
            raise

    await client.retry(attempt_or_refresh, timeout_ms=timeout_ms)
    return got


async def _leaders(
    client: Client, positions: Iterable[FetchPosition]
) -> dict[int, list[FetchPosition]]:
    positions = list(positions)
    await client.cluster.ensure({position.partition.topic: None for position in positions})
    by_leader: dict[int, list[FetchPosition]] = {}
    for position in positions:
        client.cluster.require(position.partition.topic)
        leader = client.cluster.leader(position.partition)
        if leader is None:
            text = f"{position.partition} has no leader"
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, text)
        by_leader.setdefault(leader, []).append(position)
    return by_leader
