"""A led partition for its coordinator, and the beginning and the end of its leadership.

The code that applies the metadata to the replicas of an internal topic calls `begin_leading` and
`end_leading`; the coordinators then follow the high watermark by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.broker.coordinator.coordinator_shard import M
from barnabas.broker.coordinator.coordinators import Coordinators
from barnabas.broker.partitions.partition import Partition
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.state.producer_state import TRUSTED, Verification
from barnabas.types import Buffer


class PartitionCoordinatorLog:
    """:class:`~barnabas.broker.coordinator.coordinator_shard.CoordinatorLog` over a partition."""

    __slots__ = ("_last_log", "_partition")

    def __init__(self, partition: Partition) -> None:
        """Raises ``KafkaError`` where the partition is offline."""
        if partition.log is None:
            raise partition.offline()
        self._partition = partition
        self._last_log: PartitionLog = partition.log
        """The log to read from if the partition is offline by now."""

    @property
    def _log(self) -> PartitionLog:
        """The present log: a move between directories replaces it."""
        self._last_log = self._partition.log or self._last_log
        return self._last_log

    def __repr__(self) -> str:
        return f"PartitionCoordinatorLog({self._partition.name})"

    @property
    def log_dir(self) -> str:
        return self._log.log_dir

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def batch_bytes_max(self) -> int:
        return self._log.config.max_message_bytes

    def append(
        self,
        batch: bytes,
        verification: Verification | None = TRUSTED,
        transaction_version: int = 0,
    ) -> int:
        return self._partition.append_coordinator_records(batch, verification, transaction_version)

    def read(self, offset: int, max_bytes: int, *, block: bool = False) -> Buffer | None:
        found = self._partition.read(offset, max_bytes, None, at_least_one=True, block=block)
        return None if found is None else found.records

    def read_job(self, offset: int, max_bytes: int) -> Callable[[], Buffer]:
        return self._log.read_job(offset, max_bytes)


def begin_leading(coordinators: Coordinators[M], partition: Partition) -> None:
    """This broker leads `partition` of the coordinators' topic from now on, in a new epoch."""
    log = PartitionCoordinatorLog(partition)
    tell = partial(coordinators.on_high_watermark, partition.index)
    end_watch = partition.on_high_watermark(tell)
    coordinators.on_elected(partition.index, log, partition.leader_epoch, end_watch)


def end_leading(coordinators: Coordinators[M], partition: Partition) -> None:
    """This broker no longer leads `partition`: another broker does, the log failed, or the topic
    was deleted."""
    coordinators.on_resigned(partition.index)
