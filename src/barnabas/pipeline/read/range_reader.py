"""A task's work: one range of one partition, from its leader, as Arrow batches.

Fetches go straight to the leader; the next one is under way while the last is decoded. If the leader
dies or moves, the task looks it up again and resumes the fetch at the same offset. It gives a range up
when no record arrives for the cluster's whole patience. Where records of the range are gone
(`OFFSET_OUT_OF_RANGE`, a log that has lost its end, a topic that was deleted, or is another one of the
same name), the task fails, or with ``failOnDataLoss=false`` continues behind the gap.

With ``kafka.client.rack`` a leader may name a replica in the reader's rack (KIP-392); the fetches go there
until it fails or has nothing, and then to the leader for the rest of the range.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.client import may_pass
from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.cluster_client import SETTLED_MS, TRANSIENT, AnswerAhead, ClusterClient
from barnabas.pipeline.errors import ClusterUnreachableError
from barnabas.pipeline.offsets import EARLIEST, LATEST, READ_COMMITTED, PartitionOffsets, Range
from barnabas.pipeline.options import FetchOptions, SourceOptions
from barnabas.pipeline.patience import Patience
from barnabas.pipeline.positions.losses import Loss, report
from barnabas.record.batch import last_whole
from barnabas.types import ZERO_UUID, Buffer, Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages import fetch_request, fetch_response

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.record.columnar import AbortedTransaction

log = logging.getLogger(__name__)

FETCH_BYTES_MIN = 16 << 10
SAMPLE_BYTES = 64 << 10
"""The bytes that are fetched of a partition to learn the size of its records."""
GUESSED_BYTES_EACH = 1 << 10
"""The bytes that an offset is taken to have before any was read."""
GONE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class Fetched(NamedTuple):
    """One fetch's worth of a partition: record batches from the one with `start` on."""

    records: Buffer
    start: int
    partition: fetch_response.PartitionData


class RangeReader:
    """Reads one range once. `position` is the next offset to fetch."""

    def __init__(
        self,
        cluster: ClusterClient,
        what: Range,
        options: SourceOptions,
        patience_ms: float | None = None,
    ) -> None:
        """`patience_ms`: how long nothing may come; the cluster's where it is None."""
        self.what = what
        self.position = what.start
        self._cluster = cluster
        self._fetch = options.fetch
        self._bytes_each = GUESSED_BYTES_EACH
        self._options = options
        self._rack = options.fetch.rack
        self._replica: Endpoint | None = None
        """The replica to fetch from instead of the leader."""
        self._patience = Patience(cluster.patience_ms if patience_ms is None else patience_ms)
        self._ahead: AnswerAhead | None = None

    def __repr__(self) -> str:
        return f"RangeReader({self.what} at {self.position})"

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The range's records as batches of `schema`. Raises as `runs`, and `CorruptBatchError`."""
        from barnabas.pipeline.read.decoded_columns import DecodedColumns
        from barnabas.pipeline.speed import warn_if_interpreted
        from barnabas.pipeline.warm_up import READING, wait_for_loops
        from barnabas.record.columnar import decode_groups  # compiled code: only where it is needed
        from barnabas.record.unpacking import Unpacker

        warn_if_interpreted()
        wait_for_loops(READING)
        what = self.what
        target = DecodedColumns(schema, self._options.reader_schema)
        unpacker = Unpacker()
        for run in self.runs():
            for columns in decode_groups(
                run.records,
                run.start,
                what.end,
                aborted=self._aborted(run.partition),
                wanted=target.wanted,
                check_crc=self._fetch.check_crcs,
                unpacker=unpacker,
            ):
                rows = target.to_arrow(columns, what.topic, what.partition)
                del columns
                yield rows
                del rows  # not held while the next are decoded
            del run  # nor a fetch while the next one arrives

    def runs(self) -> Iterator[Fetched]:
        """The range's record batches as they were fetched; the first and the last may reach beyond
        it. Raises `DataLossError`, `KafkaError`, `ClusterUnreachableError`."""
        while self.position < self.what.end:
            partition = self._next_answer()
            if partition is None:
                continue
            records = partition.records or b""
            assert not isinstance(records, list)  # only what is to be sent is
            start = self.position
            self.position = end_of_run(records, start)
            if self.position == start:
                self._idle(partition)
                continue
            self._bytes_each = max(len(records) // (self.position - start), 1)
            self._patience.renew()
            if self.position < self.what.end:
                self._send_ahead()
            fetched = Fetched(records, start, partition)
            del records, partition
            yield fetched
            del fetched

    def bytes_each(self) -> int:
        """The mean size in the log of the first offsets that one fetch brings."""
        while self.position < self.what.end:
            partition = self._next_answer()
            if partition is None:
                continue
            records = partition.records or b""
            assert not isinstance(records, list)
            end = end_of_run(records, self.position)
            if end > self.position:
                return max(len(records) // (end - self.position), 1)
            self._idle(partition)
        return GUESSED_BYTES_EACH

    def begin(self) -> None:
        """Send the first fetch; `batches` takes its answer."""
        if self.position < self.what.end:
            self._send_ahead()

    def _send_ahead(self) -> None:
        """Have the next answer on its way. A failure shows, and is dealt with, when it is due."""
        leader = self._replica or self._cluster.leader(self.what.of)
        self._ahead = self._send() if leader is not None else None

    def _aborted(self, partition: fetch_response.PartitionData) -> list[AbortedTransaction] | None:
        if self._fetch.isolation != READ_COMMITTED:
            return None
        from barnabas.record.columnar import AbortedTransaction

        return [
            AbortedTransaction(aborted.producer_id, aborted.first_offset)
            for aborted in partition.aborted_transactions or ()
        ]

    def _idle(self, partition: fetch_response.PartitionData) -> None:
        """The fetch was empty before the range's end. Either the leader was deposed and does not know
        it, or a new leader's high watermark has yet to catch up, or the log lost its end."""
        if partition.high_watermark < self.what.end:
            why = f"the leader shows records up to {partition.high_watermark} only"
        else:
            why = "no record comes"
        self._retry(why, perhaps_lost=True)

    def _next_answer(self) -> fetch_response.PartitionData | None:
        """The partition's part of the next fetch response, or None where it is to be asked again."""
        ahead, self._ahead = self._ahead, None
        try:
            ahead = ahead or self._send()
            if ahead is None:
                return None
            response: Any = self._cluster.wait(ahead)
        except ChannelError as error:
            if not may_pass(error):
                raise
            self._retry(error)
            return None
        code = code_of(response.error_code)
        if code == ErrorCode.NONE:
            answered = [part for topic in response.responses for part in topic.partitions]
            if not answered:
                self._retry("the leader did not answer for it")
                return None
            partition: fetch_response.PartitionData = answered[0]
            code = code_of(partition.error_code)
            if code == ErrorCode.NONE:
                return None if self._goes_to_replica(partition) else partition
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and self._replica is not None:
            self._retry("the replica has not got the offset")
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._skip_loss()
        elif code in TRANSIENT or code in GONE:
            self._retry(code.name, perhaps_lost=code in GONE)
        else:
            raise KafkaError(code, f"fetching {self.what} at {self.position}")
        return None

    def _goes_to_replica(self, partition: fetch_response.PartitionData) -> bool:
        """Whether the leader gives no records but names a replica that is nearer."""
        if partition.preferred_read_replica < 0 or partition.records or self._replica is not None:
            return False
        self._replica = self._cluster.broker(partition.preferred_read_replica)
        if self._replica is None:
            self._rack = ""
        return True

    def _is_other_topic(self) -> bool:
        """Whether the topic of that name is not the one that was planned with."""
        topic = self._cluster.topic(self.what.topic)
        planned = self.what.topic_id
        return (
            planned is not None and topic is not None and topic.topic_id not in (planned, ZERO_UUID)
        )

    def _retry(self, error: object, *, perhaps_lost: bool = False) -> None:
        """Wait, to ask who leads and fetch again. With the patience over, what is `perhaps_lost` is
        looked for once more: where it is gone, no further try would bring it."""
        self._cluster.forget(self.what.topic)
        if self._replica is not None:
            self._replica, self._rack = None, ""
        try:
            self._patience.wait(f"{self.what} at {self.position}: {error}")
        except ClusterUnreachableError:
            bounds = self._bounds() if perhaps_lost else (self.position, self.position + 1)
            if bounds is not None and bounds[1] > self.position:
                raise
            self._lose(bounds)

    def _send(self) -> AnswerAhead | None:
        """Submit the next fetch; None where the partition has no leader yet (after a wait)."""
        leader = self._cluster.leader(self.what.of)
        topic = self._cluster.topic(self.what.topic)
        if leader is None or topic is None:
            if topic is not None and self.what.partition in topic.partitions:
                self._retry("it has no leader")
            else:
                self._retry("no such topic", perhaps_lost=True)
            return None
        if self._is_other_topic():
            self._skip_loss()
            return None
        fetch: FetchOptions = self._fetch
        request = fetch_request.FetchRequest(
            max_wait_ms=fetch.wait_ms_max,
            min_bytes=fetch.bytes_min,
            max_bytes=fetch.bytes_max,
            isolation_level=fetch.isolation,
            rack_id=self._rack,
            topics=[
                fetch_request.FetchTopic(
                    topic=self.what.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        fetch_request.FetchPartition(
                            partition=self.what.partition,
                            current_leader_epoch=leader.epoch,
                            fetch_offset=self.position,
                            partition_max_bytes=self._bytes_left(),
                        )
                    ],
                )
            ],
        )
        timeout_ms = self._patience.try_ms(self._cluster.request_timeout_ms) + fetch.wait_ms_max
        return self._cluster.submit(
            self._replica or leader.endpoint, request, timeout_ms=timeout_ms
        )

    def _bytes_left(self) -> int:
        """About what is left of the range, by the mean size of offsets so far, and half as much again: a
        broker gives at least one whole batch."""
        left = (self.what.end - self.position) * self._bytes_each * 3 // 2
        return min(max(left, FETCH_BYTES_MIN), self._fetch.partition_bytes_max)

    def _bounds(self) -> tuple[int, int] | None:
        """The present begin and end of the log; None where the partition was deleted."""
        of = self.what.of
        if self._is_other_topic():
            return None
        earliest = self._cluster.list_offsets({of: EARLIEST}).get(of)
        latest = self._cluster.list_offsets({of: LATEST}).get(of)
        return None if earliest is None or latest is None else (earliest.offset, latest.offset)

    def _skip_loss(self) -> None:
        """The offset is not in the log: fail, or continue where the log begins."""
        patience = Patience(min(self._cluster.patience_ms, SETTLED_MS))
        while True:
            self._cluster.forget(self.what.topic)  # who said so may lead no more
            self._cluster.ask_another()
            bounds = self._bounds()
            if bounds is not None and bounds[0] <= self.position <= bounds[1]:
                self._retry("the leader has moved")  # a follower answered, or the log came back
                return
            if bounds is not None and bounds[0] > self.position:
                break
            try:
                patience.wait("the log ends before it")
            except ClusterUnreachableError:
                break
        self._lose(bounds)

    def _lose(self, bounds: tuple[int, int] | None) -> None:
        """Records at `position` are gone. Raises `DataLossError`, or continues behind them."""
        begin = bounds[0] if bounds else 0
        behind = min(begin, self.what.end) if begin > self.position else self.what.end
        why = f"the log has [{bounds[0]}, {bounds[1]})" if bounds else "the topic was deleted"
        if bounds is None and self._is_other_topic():
            why = "the topic was deleted and created again"
        report([Loss.of(self.what.of, self.position, behind, why)], self._options)
        self.position = behind
        self._patience.renew()


def mean_sizes(
    cluster: ClusterClient, ranges: Sequence[Range], options: SourceOptions
) -> PartitionOffsets:
    """The mean size of an offset in the log, bytes by partition, by a sample where each range begins."""
    bytes_max = min(SAMPLE_BYTES, options.fetch.partition_bytes_max)
    options = replace(options, fetch=replace(options.fetch, partition_bytes_max=bytes_max))
    return {
        range_.of: RangeReader(cluster, range_, options).bytes_each()
        for range_ in ranges
        if range_.size > 0
    }


def end_of_run(records: Buffer, start: int) -> int:
    """The offset behind the last whole batch of a fetched run, at least `start`. Raises
    `CorruptBatchError`."""
    last, _, error = last_whole(records)
    if error is not None:
        raise error
    return start if last is None else max(last.next_offset, start)
