"""Filling a future log from the current log of the same partition, batch for batch.

The current log changes meanwhile: it grows, is cut, loses its first segments. `align` cuts the copy to where
both agree, as a follower does; `append_run` appends what comes next. Both run on the owner's thread.

Source: ``ReplicaAlterLogDirsThread`` of Apache Kafka 4.3 for behaviour; KIP-113, KIP-279.
"""

from __future__ import annotations

from barnabas.log.errors import CorruptLogError
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.batch import HEADER_SIZE, read_header
from barnabas.types import Buffer


def begin(source: PartitionLog, copy: PartitionLog) -> None:
    """Continue a copy that an earlier move left, unless the log is compacted: since then compaction may have
    removed a tombstone from `source`, and the copy would keep records that the tombstone deleted. Raises
    ``OSError``."""
    if source.config.compact and copy.log_end_offset > copy.log_start_offset:
        copy.truncate_fully_and_start_at(source.log_start_offset)


def align(source: PartitionLog, copy: PartitionLog) -> None:
    """Cut `copy` to the offsets that `source` has, in the epochs in which it has them. Raises
    ``OSError``."""
    while copy.log_end_offset > copy.log_start_offset:
        last = copy.last_epoch
        epoch, end = source.epoch_end_offset(last)
        if epoch == last and end >= copy.log_end_offset:
            break
        own_epoch, own_end = copy.epoch_end_offset(epoch)
        shared = own_end if own_epoch != epoch else min(end, own_end)
        before = copy.log_end_offset
        try:
            copy.truncate_to(max(min(shared, before), copy.log_start_offset))
        except CorruptLogError:  # the copy's batches can be copied again
            copy.truncate_fully_and_start_at(source.log_start_offset)
        if copy.log_end_offset == before and copy.last_epoch == last:
            copy.truncate_fully_and_start_at(source.log_start_offset)
    if not source.log_start_offset <= copy.log_end_offset <= source.log_end_offset:
        copy.truncate_fully_and_start_at(source.log_start_offset)


def append_run(source: PartitionLog, copy: PartitionLog, records: Buffer) -> int:
    """Append what was read of `source` at the end of `copy`; how many bytes that was. Raises what the
    log has against it, ``OSError``."""
    if len(records) >= HEADER_SIZE:
        first = read_header(records).base_offset
        if first < copy.log_end_offset and copy.log_end_offset == copy.log_start_offset:
            # The log begins inside a batch, by DeleteRecords: the copy holds all of that batch.
            copy.truncate_fully_and_start_at(first)
    before = copy.size
    if len(records):
        copy.append_as_follower(records)
    copy.advance_log_start(source.log_start_offset)
    copy.move_high_watermark(source.high_watermark)
    return copy.size - before
