"""One replica's log for its readers and its leader, whatever its role.

Checks what readers believe (leader epochs, offsets), reads, and does as a follower what the leader's
answers ask for. A disk error takes the directory offline and becomes KAFKA_STORAGE_ERROR; a corrupt batch is
reported and mended (:mod:`barnabas.broker.replicas.log_repairs`).

Source: Kafka's Partition, the part that is not the leader's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from barnabas.log.errors import CorruptLogError, OffsetOutOfRange, UnexpectedGap
from barnabas.log.partition.partition_log import PartitionLog, ReadResult
from barnabas.metadata.image.topic import PartitionState
from barnabas.types import NO_NODE, Buffer, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")


class ReplicaHost(Protocol):
    """The part of the broker that a replica needs."""

    node_id: int

    def on_log_failed(self, name: TopicPartition, error: OSError) -> None: ...

    @property
    def on_log_corrupt(self) -> Callable[[TopicPartition, CorruptLogError], None]: ...
    def after_append(self, log: PartitionLog, before: int) -> None: ...


class Replica:
    """A replica's identity, its state in the metadata, and its log. `log` is None if its directory
    failed."""

    __slots__ = (
        "_disk",
        "_gap",
        "_takes_gaps",
        "index",
        "leader_epoch",
        "leader_id",
        "log",
        "name",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(
        self, disk: ReplicaHost, topic: str, topic_id: Uuid, index: int, log: PartitionLog | None
    ) -> None:
        self._disk = disk
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.name = TopicPartition(topic, index)
        self.log = log
        self.leader_id = int(NO_NODE)
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self._gap = (-1, -1)
        """Offsets that were missing in the leader's records. No CRC covers them, so the leader may have
        misread one."""
        self._takes_gaps = False
        """Whether the same offsets were missing twice, as after a compaction."""

    @property
    def is_online(self) -> bool:
        return self.log is not None

    @property
    def high_watermark(self) -> int:
        return -1 if self.log is None else self.log.high_watermark

    @property
    def flushed_end_offset(self) -> int:
        return -1 if self.log is None else self.log.flushed_end_offset

    def update_state(self, state: PartitionState) -> None:
        """Take over the state in the metadata."""
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas

    def begin_epoch(self, log: PartitionLog, epoch: int) -> bool:
        """Write down that this replica leads in `epoch`, even if no record is written in it: this
        leader commits older leaders' records with it, so its next process has to know it. Returns
        False if the log's directory failed."""
        log.epochs.assign(epoch, log.log_end_offset)
        try:
            if log.log_end_offset:
                log.epochs.write()
        except OSError as error:
            self.on_disk_error(error)
            return False
        return True

    # -- readers ---------------------------------------------------------------------------------

    def check_leader_epoch(self, epoch: int) -> None:
        """Check the leader epoch that a client knows; -1 is none. Raises FENCED_LEADER_EPOCH or
        UNKNOWN_LEADER_EPOCH."""
        if epoch < 0 or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.name} has leader epoch {self.leader_epoch}, not {epoch}",
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.name} knows leader epoch {self.leader_epoch}, not yet {epoch}",
        )

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """(epoch, end offset) where this log diverges from the reader's, or None if it does not. Raises
        OFFSET_OUT_OF_RANGE if that is unknown."""
        if last_fetched_epoch < 0:
            return None
        log = self.log
        if log is None:
            raise self.offline()
        epoch, end = log.epochs.end_of(last_fetched_epoch, log.log_end_offset)
        if epoch < 0 or end < 0 or fetch_offset < log.log_start_offset:
            raise OffsetOutOfRange(fetch_offset, log.log_start_offset, log.log_end_offset)
        if epoch < last_fetched_epoch or end < fetch_offset:
            return epoch, end
        return None

    def check_offset(self, offset: int) -> None:
        """Raises OFFSET_OUT_OF_RANGE if `offset` is neither in the log nor its end."""
        log = self.online_log()
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)

    def on_disk_error(self, error: OSError) -> KafkaError:
        """The disk failed, so the log's directory goes offline. Returns the error for the client."""
        self._disk.on_log_failed(self.name, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def on_corrupt(self, fault: CorruptLogError) -> KafkaError:
        """Report a corrupt batch, which is then repaired from another replica. Returns the reader's error:
        retriable, unless no other replica exists."""
        self._disk.on_log_corrupt(self.name, fault)
        alone = all(broker == self._disk.node_id for broker in self.replicas)
        code = ErrorCode.CORRUPT_MESSAGE if alone else ErrorCode.KAFKA_STORAGE_ERROR
        return KafkaError(code, str(fault))

    def read(
        self, offset: int, max_bytes: int, up_to: int | None, *, at_least_one: bool, block: bool
    ) -> ReadResult | None:
        """Read from the log; None if it would block and must not. Raises KafkaError."""
        log = self.log
        if log is None:
            raise self.offline()
        try:
            return log.read(offset, max_bytes, up_to=up_to, at_least_one=at_least_one, block=block)
        except (OSError, CorruptLogError) as error:
            raise self._error_of(error) from error

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """The aborted transactions that touch [start, end), each as (producer id, first offset). Raises
        KafkaError."""
        log = self.online_log()
        return self._on_disk(lambda: log.read_transactions(start, end))

    # -- a follower's log ------------------------------------------------------------------------

    def append_as_follower(self, records: Buffer) -> None:
        """Append the leader's records. Raises the log's error (records before the fault are
        appended), KAFKA_STORAGE_ERROR."""
        log = self.online_log()
        before = log.log_end_offset
        takes_gaps = log.config.compact or self._takes_gaps
        try:
            log.append_as_follower(records, self.leader_epoch, takes_gaps=takes_gaps)
        except UnexpectedGap as gap:
            self._takes_gaps, self._gap = gap.place == self._gap, gap.place
            raise
        except (OSError, CorruptLogError) as error:
            raise self._error_of(error) from error
        finally:
            if (log.flush_is_due or log.durability.rolled_since_sync) and self.log is log:
                self._disk.after_append(log, before)

    def truncate(self, offset: int) -> None:
        """Remove the records that the leader does not have. Raises KAFKA_STORAGE_ERROR."""
        log = self.online_log()
        if not self._on_disk(lambda: log.truncate_to(offset)):
            # An epoch may have begun here without a record, and the leader does not know it.
            log.epochs.truncate_from_end(log.log_end_offset)
            self._on_disk(log.epochs.write)

    def start_over_at(self, offset: int) -> None:
        """Remove all records: the leader's log begins after this one's end."""
        log = self.online_log()
        self._on_disk(lambda: log.truncate_fully_and_start_at(offset))

    def _on_disk(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except (OSError, CorruptLogError) as error:
            raise self._error_of(error) from error

    def _error_of(self, error: OSError | CorruptLogError) -> KafkaError:
        """The error for readers that corresponds to a fault of the log."""
        return self.on_disk_error(error) if isinstance(error, OSError) else self.on_corrupt(error)

    # -- errors ----------------------------------------------------------------------------------

    def online_log(self) -> PartitionLog:
        if self.log is None:
            raise self.offline()
        return self.log

    def not_leader(self) -> KafkaError:
        if self.log is None:
            return self.offline()
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {self._disk.node_id} does not lead {self.name} in epoch {self.leader_epoch}",
        )

    def offline(self) -> KafkaError:
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.name} is offline"
        )
