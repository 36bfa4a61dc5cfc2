"""Rounds of questions to the leaders of partitions: the ends of partitions, and first records.

A round asks every leader at the same time, and ends when all have answered or after `ROUND_MS_MAX`.
Leaders are asked by ListOffsets and Fetch as any consumer asks, so that Apache Kafka's brokers
answer as well. A partition that a leader refuses or leaves out has no answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from barnabas.monitoring.lag.first_record import first_record
from barnabas.ports import Ports, Wakeup
from barnabas.record.batch import CorruptBatchError
from barnabas.types import Uuid, by_topic
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.list_offsets_response import ListOffsetsResponse

ROUND_MS_MAX = 1_000.0
PARTITIONS_PER_REQUEST = 500
READS_PER_REQUEST = 32
READ_BYTES = 16 * 1024
"""Bytes that a Fetch asks of each partition. The first one of a request returns one batch, however large it
is."""
ANSWER_BYTES = 512 * 1024
READS_PER_ROUND = 2_000
"""First records that one round reads of one leader; the next round continues behind them."""
CONSUMER = -1
LATEST, EARLIEST = -1, -2
SESSIONLESS = -1


class LedPartition(NamedTuple):
    """A partition and its leader."""

    topic: str
    topic_id: Uuid
    partition: int
    leader: int
    leader_epoch: int


class LedOffset(NamedTuple):
    """An offset of a partition."""

    place: LedPartition
    offset: int


class Asks(Protocol):
    """Sends a round's questions to a leader."""

    def ends(
        self, leader: int, request: ListOffsetsRequest, on_done: Callable[[object], None]
    ) -> None: ...
    def reads(
        self, leader: int, request: FetchRequest, on_done: Callable[[object], None]
    ) -> None: ...


class LeaderRound:
    """Questions that are asked together; the round ends when all are answered."""

    def __init__(self, ports: Ports, asks: Asks) -> None:
        self.asks = asks
        self._ports = ports
        self._open = 0
        self._resume: Callable[[], None] | None = None
        self._late: Wakeup | None = None

    def begin(self, resume: Callable[[], None]) -> None:
        """Ask; `resume` is called once."""
        self._resume = resume
        at_ms = self._ports.clock.now_ms() + ROUND_MS_MAX
        self._late = self._ports.wakeups.call_at(at_ms, self._end)
        self._open = 1
        try:
            self.ask()
        finally:
            self.settle()

    def ask(self) -> None:
        """Send the first questions: `expect` before each of them, `settle` after its answer."""
        raise NotImplementedError

    def expect(self) -> None:
        self._open += 1

    def settle(self) -> None:
        self._open -= 1
        if not self._open:
            self._end()

    def is_over(self) -> bool:
        return self._resume is None

    def _end(self) -> None:
        resume, self._resume = self._resume, None
        if self._late is not None:
            self._late.cancel()
        if resume is not None:
            resume()


class EndsRound(LeaderRound):
    """The high watermarks of partitions."""

    def __init__(self, ports: Ports, asks: Asks, places: Iterable[LedPartition]) -> None:
        super().__init__(ports, asks)
        self._places = list(places)
        self.ends: dict[LedPartition, int] = {}

    def ask(self) -> None:
        for leader, places in by_leader(self._places).items():
            for part in parts(places, PARTITIONS_PER_REQUEST):
                request = offsets_request([(place, LATEST) for place in part])
                self.expect()
                self.asks.ends(leader, request, partial(self._on_answer, part))

    def _on_answer(self, places: list[LedPartition], answer: object) -> None:
        if isinstance(answer, ListOffsetsResponse):
            offsets = offsets_in(answer)
            for place in places:
                offset = offsets.get((place.topic, place.partition), -1)
                if offset >= 0:
                    self.ends[place] = offset
        self.settle()


class FirstRecordsRound(LeaderRound):
    """The timestamps of the records at positions. A leader has one question at a time."""

    def __init__(self, ports: Ports, asks: Asks, positions: Iterable[LedOffset]) -> None:
        super().__init__(ports, asks)
        self.timestamps: dict[LedOffset, int | None] = {}
        """The timestamps by the position that was asked for; None: only markers are there."""
        self._queues: dict[int, deque[tuple[LedOffset, int]]] = {}
        """The questions of each leader, with the offset that is read for each."""
        for position in positions:
            queue = self._queues.setdefault(position.place.leader, deque())
            if len(queue) < READS_PER_ROUND:
                queue.append((position, position.offset))

    def ask(self) -> None:
        for leader in self._queues:
            self.expect()
            self._ask_on(leader)

    def _ask_on(self, leader: int) -> None:
        queue = self._queues[leader]
        if not queue or self.is_over():
            self.settle()
            return
        taken: dict[LedPartition, tuple[LedOffset, int]] = {}
        later: list[tuple[LedOffset, int]] = []
        while queue and len(taken) < READS_PER_REQUEST:
            wanted = queue.popleft()
            if wanted[0].place in taken:
                later.append(wanted)  # the request has another offset of this partition
            else:
                taken[wanted[0].place] = wanted
        queue.extendleft(reversed(later))
        request = fetch_request([(place, offset) for place, (_, offset) in taken.items()])
        self.asks.reads(leader, request, partial(self._on_answer, leader, taken))

    def _on_answer(
        self, leader: int, taken: dict[LedPartition, tuple[LedOffset, int]], answer: object
    ) -> None:
        if not isinstance(answer, FetchResponse) or answer.error_code:
            self.settle()  # the round asks this leader no further question
            return
        found = _partitions_of(answer, taken)
        for at, (place, (position, offset)) in enumerate(taken.items()):
            self._take(leader, position, offset, found.get(place), is_first=not at)
        lost = [
            (position, offset)
            for place, (position, offset) in taken.items()
            if place in found and found[place].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        ]
        if lost:
            self._ask_starts(leader, lost)
        else:
            self._ask_on(leader)

    def _take(
        self,
        leader: int,
        position: LedOffset,
        offset: int,
        data: PartitionData | None,
        *,
        is_first: bool,
    ) -> None:
        if data is None or data.error_code:
            return
        records = data.records or b""
        try:
            first = first_record(
                b"".join(records) if isinstance(records, list) else records, offset
            )
        except CorruptBatchError:
            return
        if first.timestamp_ms is not None:
            self.timestamps[position] = first.timestamp_ms
        elif first.next_offset >= data.high_watermark:
            self.timestamps[position] = None
        elif first.next_offset > offset or not is_first:
            # Only markers were there, or other partitions had used up the room of the answer.
            self._queues[leader].append((position, first.next_offset))

    def _ask_starts(self, leader: int, lost: list[tuple[LedOffset, int]]) -> None:
        """Ask for the log's start: retention has deleted the records at these offsets."""
        request = offsets_request([(position.place, EARLIEST) for position, _ in lost])

        def on_starts(answer: object) -> None:
            if isinstance(answer, ListOffsetsResponse):
                starts = offsets_in(answer)
                for position, offset in lost:
                    start = starts.get((position.place.topic, position.place.partition), -1)
                    if start > offset:
                        self._queues[leader].append((position, start))
            self._ask_on(leader)

        self.asks.ends(leader, request, on_starts)


def by_leader(places: Iterable[LedPartition]) -> dict[int, list[LedPartition]]:
    found: dict[int, list[LedPartition]] = {}
    for place in places:
        found.setdefault(place.leader, []).append(place)
    return found


def parts(places: Iterable[LedPartition], size: int) -> Iterator[list[LedPartition]]:
    left = iter(places)
    while part := list(islice(left, size)):
        yield part


def offsets_request(asked: Iterable[tuple[LedPartition, int]]) -> ListOffsetsRequest:
    topics = by_topic(
        (place.topic, ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp))
        for place, timestamp in asked
    )
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[ListOffsetsTopic(name=name, partitions=found) for name, found in topics.items()],
        timeout_ms=int(ROUND_MS_MAX),
    )


def offsets_in(answer: ListOffsetsResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.offset
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code
    }


def fetch_request(asked: Iterable[tuple[LedPartition, int]]) -> FetchRequest:
    """The order of `asked` is kept: the first partition that has a record returns it."""
    return FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=ANSWER_BYTES,
        session_epoch=SESSIONLESS,
        topics=[
            FetchTopic(
                topic=place.topic,
                topic_id=place.topic_id,
                partitions=[
                    FetchPartition(
                        partition=place.partition,
                        fetch_offset=offset,
                        partition_max_bytes=READ_BYTES,
                    )
                ],
            )
            for place, offset in asked
        ],
    )


def _partitions_of(
    answer: FetchResponse, taken: Iterable[LedPartition]
) -> dict[LedPartition, PartitionData]:
    """The answer names topics by id, or by name where the leader's version of Fetch has no ids."""
    by_id = {(place.topic_id, place.partition): place for place in taken}
    by_name = {(place.topic, place.partition): place for place in taken}
    found = {}
    for topic in answer.responses:
        for data in topic.partitions:
            index = data.partition_index
            named = by_name.get((topic.topic, index))
            place = named or by_id.get((Uuid(topic.topic_id), index))
            if place is not None:
                found[place] = data
    return found
