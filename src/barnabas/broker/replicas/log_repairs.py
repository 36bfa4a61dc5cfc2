"""Repair of damaged logs: a batch that is corrupt on disk is fetched from another replica.

The code that reads a corrupt batch reports it here, with file and position. The broker does not serve it:
readers get KAFKA_STORAGE_ERROR, which clients and followers retry, while another replica may have the lost
batch; CORRUPT_MESSAGE if there is no other replica. A Fetch gets the bytes, from the in-sync replicas first:
committed records are the same on all of them. Leaders and followers are repaired alike, and neither gives up
an offset, so the ISR does not change.

The Fetch has the debugging consumer's replica id (-2), which our brokers answer up to the log's
end: it also repairs uncommitted records, which a leader with a corrupt copy could otherwise never
commit. Apache Kafka's brokers answer it up to the high watermark. If no replica has the batch, the
broker asks again later. If the damage of a follower extends past the offset where its log diverges
from its leader's, only the part before that offset is repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.controller_client.controller_channel import Sender
from barnabas.broker.partitions.replica import Replica
from barnabas.broker.replicas.replica_index import ReplicaIndex
from barnabas.client.network.connection import ChannelError
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_listener import LogListener
from barnabas.log.errors import CorruptLogError
from barnabas.log.partition import segment_repair
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports
from barnabas.types import DEBUGGING_REPLICA, Buffer, Endpoint, TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from barnabas.wire.messages.fetch_response import FetchResponse

REPAIR_RETRY_MS = 1000.0
"""The first delay before other replicas are asked again; it doubles each time, up to
`REPAIR_RETRY_MS_MAX`."""
REPAIR_RETRY_MS_MAX = 60_000.0
FETCH_BYTES = 1 << 20
WAIT_MS = 500
PURPOSE = "repair"


class LogRepair:
    """One damaged segment of one log, and the progress of its repair."""

    def __init__(self, replica: Replica, log: PartitionLog, fault: CorruptLogError) -> None:
        self.replica = replica
        self.log = log
        self.fault = fault
        self.attempts = 0
        self.why_not = ""
        """The reason why the last attempt failed."""
        self.location: segment_repair.SegmentLocation | None = None
        self.damage: segment_repair.Damage | None = None
        self.sources: list[int] = []
        self.segment_repair: segment_repair.SegmentRepair | None = None

    def describe(self) -> dict[str, object]:
        return {
            "partition": str(self.log.partition),
            "file": self.fault.path,
            "position": self.fault.position,
            "attempts": self.attempts,
            "why_not": self.why_not,
        }


class LogRepairs:
    """The damaged segments of one broker. Each is repaired independently of the others."""

    def __init__(
        self,
        ports: Ports,
        channels: Sender,
        node_id: int,
        index: ReplicaIndex,
        logs: LogDirectories,
        endpoint_of: Callable[[int], Endpoint | None],
    ) -> None:
        """`endpoint_of` gives the endpoint of another broker; None while it is unknown."""
        self._ports = ports
        self._channels = channels
        self._node_id = node_id
        self._index = index
        self._logs = logs
        self._endpoint_of = endpoint_of
        self._work: dict[str, LogRepair] = {}
        self._closed = False
        self.mended = 0
        logs.events.listen(LogListener(on_corrupt=self.report))

    def report(self, partition: TopicPartition, fault: CorruptLogError) -> None:
        """A batch of this log is damaged: begin its repair, unless the damage was reported
        before."""
        replica = self._index.by_name.get(partition)
        if replica is None or replica.log is None or self._closed:
            self._logs.cleaner.on_mended(partition)  # a later read reports it again
            return
        known = self._work.get(fault.path)
        if known is not None and known.log is replica.log:
            return
        self._ports.log(
            "error",
            "log.corrupt_batch",
            partition=str(partition),
            file=fault.path,
            position=fault.position,
            why=str(fault),
        )
        work = self._work[fault.path] = LogRepair(replica, replica.log, fault)
        # In a later turn: a repair may close the segment that the caller is reading.
        self._ports.wakeups.call_soon(lambda: self._examine(work))

    # -- what is lost ----------------------------------------------------------------------------

    def _examine(self, work: LogRepair) -> None:
        if not self._is_current(work):
            return
        work.attempts += 1
        try:
            work.location = place = segment_repair.location_of(work.log, work.fault.path)
        except OSError as error:
            self._fail(work, error)
            return
        if place is None:  # retained, compacted or cut away
            self._end(work)
            return
        self._run(work, lambda: segment_repair.examine(place), self._on_examined)

    def _on_examined(self, work: LogRepair, damage: segment_repair.Damage | None) -> None:
        assert work.location is not None
        if damage is None:  # misread once, or wrong records under a correct CRC
            del self._work[work.fault.path]
            self._logs.cleaner.on_sound(work.log.partition)
            return
        work.damage, work.segment_repair, start = damage, None, work.log.log_start_offset
        if start >= work.location.end_offset:  # deleted, and retention is about to take it
            self._end(work)
            return
        if start >= damage.next_offset:
            self._rebuild(work, [])
            return
        others = [b for b in work.replica.replicas if b != self._node_id]
        topic = self._index.image.topics_by_id.get(work.replica.topic_id)
        in_sync = () if topic is None else topic.partition(work.replica.index).isr
        work.sources = sorted(others, key=lambda broker: broker not in in_sync)
        if not others:
            work.why_not = "no other broker has a replica"
        self._next_source(work)

    # -- what others have ------------------------------------------------------------------------

    def _next_source(self, work: LogRepair) -> None:
        assert work.location is not None and work.damage is not None
        if not self._is_current(work):
            return
        if not work.sources:
            self._later(work)
            return
        source = work.sources.pop(0)
        at = self._endpoint_of(source)
        if at is None:
            work.why_not = f"broker {source} is not to be reached"
            self._next_source(work)
            return
        work.segment_repair = segment_repair.SegmentRepair(work.log, work.location, work.damage)
        self._ask(work, source, at)

    def _ask(self, work: LogRepair, source: int, at: Endpoint) -> None:
        replica, repair = work.replica, work.segment_repair
        assert repair is not None
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=DEBUGGING_REPLICA),
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=replica.topic,
                    topic_id=replica.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=replica.index,
                            fetch_offset=repair.next_offset,
                            partition_max_bytes=FETCH_BYTES,
                        )
                    ],
                )
            ],
        )

        def on_answer(response: FetchResponse | ChannelError) -> None:
            if self._is_current(work) and work.segment_repair is repair:
                self._on_answer(work, source, at, response)

        self._channels.send(at, request, on_answer, purpose=PURPOSE)

    def _on_answer(
        self, work: LogRepair, source: int, at: Endpoint, response: FetchResponse | ChannelError
    ) -> None:
        repair, damage = work.segment_repair, work.damage
        assert repair is not None and damage is not None
        try:
            gained = repair.add(_records_in(response))
        except ValueError as error:
            work.why_not = f"broker {source}: {error}"
            if repair.diverges_at >= 0 and repair.batches and self._leads(work, source):
                # The leader has other records for the rest: truncation follows once this part is
                # repaired.
                work.damage = damage._replace(next_offset=repair.diverges_at)
                self._rebuild(work, repair.batches)
            else:
                self._next_source(work)
            return
        if repair.is_complete:
            self._rebuild(work, repair.batches)
        elif gained:
            self._ask(work, source, at)
        else:
            work.why_not = f"broker {source} has nothing at {repair.next_offset}"
            self._next_source(work)

    def _leads(self, work: LogRepair, broker: int) -> bool:
        topic = self._index.image.topics_by_id.get(work.replica.topic_id)
        return topic is not None and topic.partition(work.replica.index).leader == broker

    # -- putting it in place ---------------------------------------------------------------------

    def _rebuild(self, work: LogRepair, batches: list[bytes]) -> None:
        place, damage = work.location, work.damage
        assert place is not None and damage is not None
        self._run(work, lambda: segment_repair.rebuild(place, damage, batches), self._on_rebuilt)

    def _on_rebuilt(self, work: LogRepair, size: int) -> None:
        assert work.location is not None and work.damage is not None
        try:
            if not segment_repair.swap_in(work.log, work.location, size):
                work.why_not = "the log changed meanwhile"
                self._later(work)
                return
        except OSError as error:
            self._fail(work, error)
            return
        if work.segment_repair is not None:
            work.segment_repair.correct_epochs()
        self._logs.cleaner.give_up_on(work.log.partition)
        self._logs.remove_later(work.log)
        self._logs.sync(work.log)
        self.mended += 1
        self._ports.log(
            "warning",
            "log.mended",
            partition=str(work.log.partition),
            file=work.fault.path,
            first_offset=work.damage.first_offset,
            next_offset=work.damage.next_offset,
            attempts=work.attempts,
        )
        self._end(work)

    # -- one way or another ----------------------------------------------------------------------

    def _run(
        self, work: LogRepair, job: Callable[[], Any], then: Callable[[LogRepair, Any], None]
    ) -> None:
        """Run a blocking step. An error of the disk takes the log's directory offline."""

        def done(result: object) -> None:
            if not self._is_current(work):
                return
            if isinstance(result, FileNotFoundError | CorruptLogError):
                work.why_not = str(result)
                self._later(work)
            elif isinstance(result, OSError):
                self._fail(work, result)
            elif isinstance(result, BaseException):
                work.why_not = repr(result)
                self._later(work)
                raise result  # a bug of this program: raise it
            else:
                then(work, result)

        self._ports.background.run(f"repair {work.log.directory}", job, done)

    def _is_current(self, work: LogRepair) -> bool:
        if self._work.get(work.fault.path) is not work or self._closed:
            return False
        replica = self._index.by_name.get(work.log.partition)
        if replica is not work.replica or replica.log is not work.log:
            del self._work[work.fault.path]
            return False
        return True

    def _later(self, work: LogRepair) -> None:
        """No replica had the batch: retry after a delay."""
        delay = min(REPAIR_RETRY_MS * 2.0 ** min(work.attempts - 1, 10), REPAIR_RETRY_MS_MAX)
        self._ports.log(
            "warning",
            "log.not_mended",
            partition=str(work.log.partition),
            why=work.why_not,
            again_in_ms=delay,
        )
        self._ports.wakeups.call_at(self._ports.clock.now_ms() + delay, lambda: self._examine(work))

    def _fail(self, work: LogRepair, error: OSError) -> None:
        self._work.pop(work.fault.path, None)
        self._logs.fail_log(work.log.partition, error)

    def _end(self, work: LogRepair) -> None:
        self._work.pop(work.fault.path, None)
        self._logs.cleaner.on_mended(work.log.partition)

    def close(self) -> None:
        self._closed = True

    def describe(self) -> list[dict[str, object]]:
        return [work.describe() for _, work in sorted(self._work.items())]


def _records_in(response: FetchResponse | ChannelError) -> Buffer:
    """Raises ``ValueError`` with the reason if there are none."""
    if isinstance(response, ChannelError):
        raise ValueError(str(response))
    if response.error_code:
        raise ValueError(ErrorCode(response.error_code).name)
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code:
                raise ValueError(ErrorCode(data.error_code).name)
            if isinstance(data.records, bytes | bytearray | memoryview):
                return data.records
    return b""
