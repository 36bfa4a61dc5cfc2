"""A log whose files move to another directory, and what it takes over from the log that it replaces.

Source: ``UnifiedLog.renameDir`` and Kafka's LogManager.replaceCurrentWithFutureLog.
"""

from __future__ import annotations

from barnabas.log.file_names import LEADER_EPOCH
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments import segment as segment_files


def relocate(log: PartitionLog, directory: str) -> None:
    """Its files are in `directory` now."""
    log.generations.on_moved()
    log.directory = directory
    log.epochs.path = f"{directory}/{LEADER_EPOCH}"
    for segment in log.segments:
        segment_files.relocate(segment, directory)
    log.durability.dirty_dir_name.happened()


def inherit(future: PartitionLog, current: PartitionLog) -> None:
    """Take over what the current log knows and its batches do not say: epochs that wrote nothing,
    producers whose batches are gone, the watermark."""
    future.reconfigure(current.config)
    future.epochs.take_over(current.epochs)
    future.producers = current.producers
    future.advance_log_start(current.log_start_offset)
    # It may begin behind the current one.
    future.epochs.truncate_from_start(future.log_start_offset)
    future.move_high_watermark(current.high_watermark)
    future.generations.note_cut(current.generations.lowest_cut)
    future.write_producer_snapshot(future.log_end_offset)
