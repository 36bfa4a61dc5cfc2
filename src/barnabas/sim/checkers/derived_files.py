"""Invariants 6 and 9 at the end: what a replica derived from its batches says what they say. Batches
follow each other from the log's start to its end, the leader epoch cache names each one's epoch, every
entry of an index points to the batch that it speaks of, and what is known of a producer is what its last
batch said."""

from __future__ import annotations

from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments.segment import Located, Segment
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.sim.world.disk import SimDisk

LastBatches = dict[int, tuple[int, int, int]]
"""Producer id → (epoch, last sequence, last offset) of its last batch with a sequence."""


class DerivedFilesFit(Checker):
    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            broker = node.broker
            for name, log in sorted(broker.logs.logs.items()) if broker is not None else ():
                paths = [file for s in log.segments for file in _files(s)]
                if not any(map(node.machine.disk.is_rotten, paths)):
                    _check(f"{name} on node {node.id}", node, log)


def _files(segment: Segment) -> list[str]:
    return [segment.path, segment.index.path, segment.time_index.path]


def _check(where: str, node: SimNode, log: PartitionLog) -> None:
    if not log.segments[0].base_offset <= log.log_start_offset <= log.log_end_offset:
        raise Violation(
            f"{where}: its start {log.log_start_offset} is not within its segments, from"
            f" {log.segments[0].base_offset} to {log.log_end_offset}"
        )
    end, producers = log.segments[0].base_offset, LastBatches()
    # A power loss may take back how far the log's start had moved, while the deletions that went with it
    # are durable: batches below the first known epoch were deleted already (seed 149).
    epochs = log.epochs.entries()
    deleted_to = max(log.log_start_offset, epochs[0][1] if epochs else 0)
    for segment in log.segments:
        batches = {located.position: located for located in segment.headers()}
        for located in batches.values():
            header = located.header
            # What replaces a lost stretch begins at the log's start: deleted offsets are on no replica.
            whole = not log.config.compact and log.segments[0].base_offset < end
            missing = header.base_offset > max(end, log.log_start_offset)
            if header.base_offset < end or (whole and missing):
                raise Violation(f"{where}: {header.base_offset} follows {end} in {segment.path}")
            end = header.next_offset
            known = log.epochs.epoch_of(header.base_offset)
            # The CRC does not cover it: a compaction copies a flipped bit into a whole file (shares 3812789).
            is_sound = segment.path not in node.machine.disk.rotted
            if is_sound and known != header.leader_epoch and header.base_offset >= deleted_to:
                raise Violation(
                    f"{where}: the batch at {header.base_offset} is of leader epoch"
                    f" {header.leader_epoch}, its cache says {known}: {log.epochs.entries()}"
                )
            if header.producer_id >= 0 and header.base_sequence >= 0 and not header.is_control:
                last = (header.producer_epoch, header.last_sequence, header.last_offset)
                producers[header.producer_id] = last
        _check_indexes(where, segment, batches)
        _check_size(where, node.machine.disk, segment, segment is log.active)
    if end > log.log_end_offset or (
        end < log.log_end_offset and not log.config.compact and log.size
    ):
        raise Violation(f"{where}: its batches end at {end}, the log at {log.log_end_offset}")
    _check_producers(where, log, producers)


def _check_indexes(where: str, segment: Segment, batches: dict[int, Located]) -> None:
    for relative, position in segment.index.entries():
        batch = batches.get(position)
        if batch is None or batch.header.last_offset - segment.base_offset != relative:
            raise Violation(
                f"{where}: {segment.index.path} says that a batch ends with offset"
                f" {relative + segment.base_offset} at {position}, where {batch} is"
            )
    last = max((b.header.last_offset for b in batches.values()), default=segment.base_offset)
    stamps = segment.time_index.entries()
    if stamps != sorted(stamps) or any(at + segment.base_offset > last for _, at in stamps):
        raise Violation(
            f"{where}: {segment.time_index.path} has {stamps[-3:]}, its log ends at {last}"
        )


def _check_size(where: str, disk: SimDisk, segment: Segment, is_active: bool) -> None:
    size = len(disk.content(segment.path))
    if size < segment.size or (size > segment.size and not is_active):
        raise Violation(f"{where}: {segment.path} has {size} bytes, {segment.size} of them batches")


def _check_producers(where: str, log: PartitionLog, producers: LastBatches) -> None:
    for producer_id, (epoch, sequence, offset) in producers.items():
        entry = log.producers.entries.get(producer_id)
        if entry is None or offset < log.log_start_offset:
            continue  # it may have expired
        known = entry.batches[-1] if entry.batches else None
        if entry.epoch == epoch and known is not None and known.last_offset < offset:
            raise Violation(
                f"{where}: of producer {producer_id} it knows {known}, its last batch ends with"
                f" sequence {sequence} at {offset}"
            )
    for producer_id, entry in log.producers.entries.items():
        if entry.batches and entry.batches[-1].last_offset >= log.log_end_offset:
            raise Violation(
                f"{where}: knows {entry.batches[-1]} of producer {producer_id}, behind its end"
            )
