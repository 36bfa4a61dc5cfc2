"""From a directory to what a replica begins with: log, voters, election, latest snapshot. Blocks.

A snapshot that ends beyond the log, or where the log has a record of another epoch, replaces the log: it
was installed, and the crash came before the log was cut. One that ends inside vouches for the log before
it: it was taken when that was durable. The rest is synced: who was killed may have left it in the cache,
and the power may fail before the next sync (Raft §5.1 asks for stable storage; simulator seed 10129).
Source: KIP-630; Kafka's ``KafkaRaftLog``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.limits import NodeBounds, RaftBounds
from barnabas.log.errors import CorruptLogError
from barnabas.ports import Disk
from barnabas.raft.core.batches import ControlRecord
from barnabas.raft.core.election_state import FILE_NAME, ElectionState, QuorumStateError
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.core.voters import VoterHistory, VoterSet
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage import snapshot_files
from barnabas.raft.storage.recovery_point import DamagedLogError, marked_offset, sound_controls
from barnabas.raft.storage.replica_log import (
    DIRECTORY,
    EPOCH_MAX,
    UNKNOWN,
    PartitionRaftLog,
    RaftLog,
    UnsoundError,
    scan,
)
from barnabas.raft.storage.snapshot_files import SnapshotFile
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.wire.messages.voters_record import VotersRecord
from barnabas.wire.schema import Message

WITHOUT_IT = (
    "without it this replica could vote twice in one epoch, so it does not start; put back a copy, or remove"
    " this voter from the quorum, format its directory again, and add it"
)


@dataclass(slots=True)
class BootstrappedReplica:
    """The content of a replica's directory."""

    directory: str
    log: RaftLog
    log_metadata: LogMetadata
    history: VoterHistory
    election: ElectionState
    snapshot: SnapshotFile | None
    controls: list[tuple[int, list[ControlRecord]]] = field(default_factory=list)
    """The log's control batches by base offset."""
    fault: str = ""
    """Why the log was cut at its end; empty where it was not."""
    damaged_snapshot: str = ""
    """The fault of snapshots that were set aside, for older ones and the log have all that they had."""


def open_replica(
    disk: Disk,
    settings: ReplicaSettings,
    directory: str,
    *,
    cut_damage: bool = False,
    bounds: NodeBounds = NodeBounds(),
) -> BootstrappedReplica:
    """The only voter does not open a log that lacks what was on disk, unless `cut_damage`. Raises
    ``OSError``, ``QuorumStateError``, ``CorruptSnapshotError``, ``CorruptLogError`` (`DamagedLogError`)."""
    path = f"{directory}/{DIRECTORY}"
    disk.make_dirs(path)
    snapshot_files.remove_leftovers(disk, path)
    known = snapshot_files.snapshots_in(disk, path)
    log = _open_log(disk, settings, path, known, bounds, cut_damage=cut_damage)
    try:
        return _opened(disk, settings, path, known, log, bounds.raft, cut_damage=cut_damage)
    except BaseException:
        log.close(clean=False)
        raise


def _opened(
    disk: Disk,
    settings: ReplicaSettings,
    path: str,
    known: list[OffsetAndEpoch],
    log: PartitionRaftLog,
    bounds: RaftBounds,
    *,
    cut_damage: bool,
) -> BootstrappedReplica:
    known, damaged = _without_damaged(disk, path, known, log)
    latest = known[-1] if known else None
    fault = log.fault
    if latest is not None and not log.start_offset <= latest.offset <= log.end_offset:
        log.restart_at(latest.offset)
    # The log may begin in the middle of its first segment: its start is the oldest snapshot's end.
    usable = [snapshot for snapshot in known if snapshot.offset >= log.start_offset]
    earliest = usable[0] if log.start_offset > 0 else (known[0] if known else None)
    if log.start_offset > 0 and earliest is None:
        raise snapshot_files.CorruptSnapshotError(
            f"{path} begins at offset {log.start_offset} and has no snapshot of what was before"
        )
    election, epoch_max = _election(disk, path)

    def check(error: UnsoundError) -> None:
        if not cut_damage and error.offset < (synced := marked_offset(disk, path)):
            if _votes_alone(disk, settings, path, known, bounds):
                raise DamagedLogError(path, 0, error.offset, synced) from error

    shape, controls, earliest, unsound = _scan_sound(
        log, earliest, latest, epoch_max, bounds.scan_bytes, check
    )
    fault = fault or unsound
    if latest is not None and _contradicts(shape, latest):
        log.restart_at(latest.offset)
        earliest = latest
        shape, controls = scan(log, scan_bytes=bounds.scan_bytes)
    _make_durable(log, shape)
    shape.earliest_snapshot, shape.latest_snapshot = earliest, latest
    file = None
    history = VoterHistory(VoterSet.static(settings.static_voters, settings.listener_name))
    if latest is not None:
        name = snapshot_files.file_name(latest)
        file = SnapshotFile(disk, f"{path}/{name}", latest, bounds)
        for _, message in file.controls:
            _note(history, message, latest.offset - 1)
    for base_offset, records in controls:
        for offset, (_, message) in enumerate(records, base_offset):
            if latest is None or offset >= latest.offset:
                _note(history, message, offset)
    return BootstrappedReplica(path, log, shape, history, election, file, controls, fault, damaged)


def _without_damaged(
    disk: Disk, path: str, known: list[OffsetAndEpoch], log: RaftLog
) -> tuple[list[OffsetAndEpoch], str]:
    """The snapshots without the newest ones that are damaged, which get another name, and what is wrong with
    those. Raises :class:`CorruptSnapshotError` where no older snapshot (at offset 0: none) is sound and
    continued by the log up to them."""
    left, faults = list(known), list[str]()
    while left:
        try:
            snapshot_files.check_file(disk, path, left[-1])
            break
        except snapshot_files.CorruptSnapshotError as error:
            faults.append(str(error))
            left.pop()
    if not faults:
        return known, ""
    begins = left[-1].offset if left else 0
    if not log.start_offset <= begins <= known[-1].offset <= log.end_offset:
        raise snapshot_files.CorruptSnapshotError(
            f"{'; '.join(faults)}. Nothing here replaces it: the log beside it has offsets"
            f" {log.start_offset} to {log.end_offset}. Restore the file, or have the other voters replace"
            " this one (docs/quorum-operations.md)"
        )
    for snapshot in known[len(left) :]:
        name = f"{path}/{snapshot_files.file_name(snapshot)}"
        disk.rename(name, name + snapshot_files.DAMAGED_SUFFIX)
    disk.sync_dir(path)
    return left, "; ".join(faults)


def _scan_sound(
    log: RaftLog,
    earliest: OffsetAndEpoch | None,
    latest: OffsetAndEpoch | None,
    epoch_max: int,
    scan_bytes: int,
    before_cut: Callable[[UnsoundError], None],
) -> tuple[LogMetadata, list[tuple[int, list[ControlRecord]]], OffsetAndEpoch | None, str]:
    """(shape, control batches, earliest snapshot, why it was cut) of the log without its unsound part. Where
    the damage is before the latest snapshot, the log before that is deleted; else the log is cut there."""
    fault = ""
    while True:
        before = earliest.epoch if earliest and earliest.offset == log.start_offset > 0 else UNKNOWN
        try:
            return *scan(log, before, epoch_max, scan_bytes), earliest, fault
        except UnsoundError as error:
            if latest is None or latest.offset <= error.offset:
                before_cut(error)
                log.truncate_to(error.offset)
                if log.end_offset > error.offset:
                    raise CorruptLogError(DIRECTORY, 0, str(error)) from error
                fault = fault or str(error)
                continue
        except CorruptLogError as error:
            # What lies behind the snapshot was checked when the log was opened: the damage is before it.
            if latest is None:
                raise
            if latest.offset <= log.start_offset:
                # In the same segment, so that nothing behind it can be found either.
                before_cut(UnsoundError(latest.offset, str(error)))
                log.restart_at(latest.offset)
                fault = fault or str(error)
                continue
        log.delete_before(latest.offset)
        earliest = latest


def _election(disk: Disk, path: str) -> tuple[ElectionState, int]:
    """The persisted state, and the last epoch of which this replica heard: it is persisted before any of its
    records. Who wiped the file (Kafka's advice where voters changed) says nothing of that."""
    state_path = f"{path}/{FILE_NAME}"
    if not disk.exists(state_path):
        return ElectionState(), EPOCH_MAX
    try:
        election = ElectionState.from_json(disk.read_file(state_path))
    except QuorumStateError as error:
        raise QuorumStateError(f"{state_path}: {error}; {WITHOUT_IT}") from error
    return election, election.epoch


def _open_log(
    disk: Disk,
    settings: ReplicaSettings,
    path: str,
    known: list[OffsetAndEpoch],
    bounds: NodeBounds,
    *,
    cut_damage: bool,
) -> PartitionRaftLog:
    latest = known[-1].offset if known else 0
    synced = 0 if cut_damage else marked_offset(disk, path)

    def check(file: str, position: int, end: int) -> None:
        if max(end, latest) < synced and _votes_alone(disk, settings, path, known, bounds.raft):
            raise DamagedLogError(file, position, end, synced)

    log = PartitionRaftLog.open(
        disk,
        path,
        start_offset=known[0].offset if known else 0,
        recovery_point=latest,
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        before_cut=lambda segment, position, end: check(segment.path, position, end),
        bounds=bounds,
    )
    active = log.partition_log.active
    try:
        check(active.path, active.size, log.end_offset)  # whole batches are gone without a trace
    except BaseException:
        log.close(clean=False)
        raise
    return log


def _votes_alone(
    disk: Disk,
    settings: ReplicaSettings,
    path: str,
    known: list[OffsetAndEpoch],
    bounds: RaftBounds,
) -> bool:
    """Whether this node is the only voter, by what is sound of snapshot and log."""
    history = VoterHistory(VoterSet.static(settings.static_voters, settings.listener_name))
    latest = known[-1] if known else None
    if latest is not None:
        name = snapshot_files.file_name(latest)
        file = SnapshotFile(disk, f"{path}/{name}", latest, bounds)
        for _, message in file.controls:
            _note(history, message, latest.offset - 1)
    for base_offset, records in sound_controls(disk, path):
        for offset, (_, message) in enumerate(records, base_offset):
            if latest is None or offset >= latest.offset:
                _note(history, message, offset)
    return settings.can_vote and list(history.voters) == [settings.node_id]


def _make_durable(log: RaftLog, shape: LogMetadata) -> None:
    """Sync what a killed process left in the system's cache: it counts for commits and votes from now on."""
    job, on_synced = log.sync_job()
    job()
    on_synced()
    shape.synced_offset = shape.end_offset


def _contradicts(shape: LogMetadata, snapshot: OffsetAndEpoch) -> bool:
    """Whether the log has another record before the snapshot's end, or continues in an older epoch."""
    if shape.start_offset < snapshot.offset <= shape.end_offset:
        return shape.epoch_before(snapshot.offset) != snapshot.epoch
    return bool(shape.epochs) and shape.epochs[0][0] < snapshot.epoch


def _note(history: VoterHistory, message: Message, offset: int) -> None:
    if isinstance(message, KRaftVersionRecord):
        history.add_version(offset, message.k_raft_version)
    elif isinstance(message, VotersRecord):
        history.add_voters(offset, VoterSet.from_record(message))
