"""Recovers a quorum that lost the majority of its voters: one surviving directory becomes the quorum,
offline.

The survivor may lack records that the others committed without it, and has no way to find out. So `assess`
reports what the directory holds, how old it is, what is damaged, and whether other voters could have had
more; it changes nothing. Then `recover` writes. It truncates a damaged log, if the operator agreed to that.
It begins a new epoch with one control batch: a LeaderChange with a mark of when, by which command and from
which state the quorum was recovered (a tagged field that Apache Kafka skips), and in a dynamic quorum the new
voter set. The voters of a static quorum are in the configuration, which its operator changes at the same
time.

The node must be stopped. Other voters' directories must not be used again: they have another history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from barnabas.ports import Disk
from barnabas.raft.core.batches import ControlRecord, control_batch, data_batch, iter_runs
from barnabas.raft.core.election_state import FILE_NAME, ElectionState
from barnabas.raft.core.quorum_math import majority
from barnabas.raft.core.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.bootstrap import BootstrappedReplica, open_replica
from barnabas.raft.storage.overlay_disk import OverlayDisk
from barnabas.raft.storage.recovery_point import mark, marked_offset
from barnabas.raft.storage.replica_log import DIRECTORY, EPOCH_MAX, SCAN_BYTES
from barnabas.record.batch import HEADER
from barnabas.record.builder import ControlType
from barnabas.types import METADATA_TOPIC
from barnabas.wire.messages.leader_change_message import LeaderChangeMessage, Voter

EPOCHS_SKIPPED = 1_000
"""Epochs to skip: the lost majority may have had leaders in epochs that the survivor never heard of, and
brokers with records of those epochs follow no older one."""


DAMAGED = (
    "is damaged: put a whole copy of it in its place (brokers have one of the log), or give up what is"
    " missing with --cut"
)

Amend = Callable[[BootstrappedReplica], Iterable[Sequence[bytes]]]
"""The state machine's records for a recovery, one batch each, given the opened directory."""


class RecoveryRefusedError(ValueError):
    """The reason, in one sentence, why this directory cannot become the quorum."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The content of a surviving directory, and what may be missing from it."""

    survivor: ReplicaKey
    voters: tuple[int, ...]
    """The voter set by the log (or the configuration, where it is static)."""
    kraft_version: int
    end: OffsetAndEpoch
    """The log end. Records that others committed from this offset on are lost."""
    saved_epoch: int
    """The newest epoch in the stored election state. If it is above `end.epoch`, there was a leader whose
    records are not here."""
    last_timestamp_ms: int
    """Append timestamp of the last record; -1 if there is none."""
    synced: int = 0
    """Recovery point: the log was on disk up to this offset. If it is above `end.offset`, the log is
    damaged."""
    fault: str = ""
    """Why the log ends there, if corrupt bytes follow; otherwise empty."""

    @property
    def absent(self) -> tuple[int, ...]:
        return tuple(voter for voter in self.voters if voter != self.survivor.id)

    @property
    def is_damaged(self) -> bool:
        """Whether a part of the log is lost. A write torn by a crash looks the same."""
        return bool(self.fault) or self.synced > self.end.offset

    @property
    def may_lack_committed(self) -> bool:
        """Whether the others could have committed records without this replica: they are a majority, or they
        may have become one by removing this replica without its knowledge."""
        return self._absent_decide or (self.kraft_version >= 1 and len(self.absent) > 0)

    @property
    def _absent_decide(self) -> bool:
        return len(self.absent) >= majority(len(self.voters))

    def sentences(self) -> list[str]:
        """The assessment in sentences, for the operator who has to agree."""
        lines = [
            f"{METADATA_TOPIC} ends here at offset {self.end.offset} of epoch {self.end.epoch}.",
            f"The voters are {list(self.voters)}; {list(self.absent)} are given up.",
        ]
        if self.fault:
            lines.append(
                f"The log is corrupt after that ({self.fault}): what was committed there is lost. If a crash"
                " only tore the last write, nothing was."
            )
        if self.synced > self.end.offset:
            lines.append(
                f"The log was on disk up to offset {self.synced}: its records from offset"
                f" {self.end.offset} on are damaged and lost."
            )
        if self.may_lack_committed:
            removed = " once they have removed it, which may have happened"
            how = "" if self._absent_decide else removed
            lines.append(
                f"Voters {list(self.absent)} are a majority without this node{how}: what they committed"
                f" from offset {self.end.offset} on is lost. A broker that applied some of it stops when"
                " it connects to this quorum, and follows it after a restart. A broker that has a snapshot"
                f" of it says so when it stops, and follows after its {DIRECTORY} is removed. A broker to"
                " which this quorum sends a newer snapshot continues from that."
            )
        elif not self.is_damaged:
            lines.append("Every majority had this node: no committed record is missing.")
        if self.saved_epoch > self.end.epoch:
            lines.append(
                f"This node heard of epoch {self.saved_epoch} and has no record of it: a leader may have"
                " written in that epoch."
            )
        return lines


def assess(
    disk: Disk, settings: ReplicaSettings, directory: str, amend: Amend | None = None
) -> Assessment:
    """Assess the directory, and read what `amend` needs, without changing anything. Blocks. Raises
    ``OSError``, :class:`RecoveryRefusedError`, ``QuorumStateError``, ``CorruptSnapshotError``,
    ``CorruptLogError``."""
    opened = open_replica(OverlayDisk(disk), settings, directory, cut_damage=True)
    try:
        assessment = _assess(disk, opened, settings)
        for _ in () if amend is None else amend(opened):
            pass
        return assessment
    finally:
        opened.log.close(clean=True)


def _assess(disk: Disk, opened: BootstrappedReplica, settings: ReplicaSettings) -> Assessment:
    voters, shape = opened.history.voters, opened.log_metadata
    me = ReplicaKey(settings.node_id, settings.directory_id)
    if not settings.can_vote:
        raise RecoveryRefusedError(f"node {me.id} is no controller")
    if opened.history.kraft_version < 1 and me.id not in voters.nodes:
        raise RecoveryRefusedError(
            f"the log does not say who votes, and controller.quorum.voters does not name node {me.id}"
        )
    if shape.end_offset == 0:
        raise RecoveryRefusedError(f"{opened.directory} has no log: there is nothing to recover")
    if max(opened.election.epoch, shape.last_epoch) > EPOCH_MAX - EPOCHS_SKIPPED:
        raise RecoveryRefusedError(
            f"epoch {opened.election.epoch} of {FILE_NAME} leaves no room for more: no quorum was ever there;"
            " remove that file, and the epoch is the log's"
        )
    timestamp = opened.snapshot.last_contained_timestamp if opened.snapshot else -1
    if shape.end_offset > shape.start_offset:
        timestamp = _last_timestamp(opened)
    return Assessment(
        me,
        tuple(voters),
        opened.history.kraft_version,
        shape.last,
        opened.election.epoch,
        timestamp,
        marked_offset(disk, opened.directory),
        opened.fault,
    )


def _last_timestamp(opened: BootstrappedReplica) -> int:
    log, found = opened.log, -1
    data = log.read(log.end_offset - 1, SCAN_BYTES, log.end_offset)
    for run in iter_runs(data, check_crc=False):
        found = HEADER.unpack_from(data, run.position)[8]
    return found


def recover(
    disk: Disk,
    settings: ReplicaSettings,
    directory: str,
    wall_ms: int,
    reason: str,
    amend: Amend | None = None,
    *,
    cut_damage: bool = False,
) -> Assessment:
    """Make this directory the whole quorum; the records of `amend` follow the mark. `cut_damage` accepts the
    loss of a log's damaged part. Blocks until all is durable. Raises the errors of `assess` and of `amend`
    before anything is written."""
    assessment = assess(disk, settings, directory)
    if assessment.is_damaged and not cut_damage:
        raise RecoveryRefusedError(f"{directory}/{DIRECTORY} {DAMAGED}")
    opened = open_replica(disk, settings, directory, cut_damage=True)
    try:
        amended = [] if amend is None else list(amend(opened))
        epoch = max(opened.election.epoch, opened.log_metadata.last_epoch) + EPOCHS_SKIPPED
        content = ElectionState(epoch).to_json(assessment.kraft_version, [settings.node_id])
        disk.write_atomic(f"{opened.directory}/{FILE_NAME}", content)
        _append(opened, settings, assessment, epoch, wall_ms, reason)
        for values in amended:
            opened.log.append(data_batch(values, opened.log.end_offset, epoch, wall_ms))
        job, on_synced = opened.log.sync_job()
        job()
        on_synced()
        mark(disk, opened.directory, opened.log.end_offset)
    finally:
        opened.log.close(clean=True)
    return assessment


def _append(
    opened: BootstrappedReplica,
    settings: ReplicaSettings,
    assessment: Assessment,
    epoch: int,
    wall_ms: int,
    reason: str,
) -> None:
    me = assessment.survivor
    mark = f"{reason}; from {assessment.end} of node {me.id}, without {list(assessment.absent)}"
    named = [Voter(voter_id=me.id)]
    change = LeaderChangeMessage(  # in version 0: Apache Kafka reads no other
        leader_id=me.id, voters=named, granting_voters=named, quorum_recovery=mark
    )
    controls: list[ControlRecord] = [(ControlType.LEADER_CHANGE, change)]
    if assessment.kraft_version >= 1:
        voters = VoterSet.of(VoterNode(me, dict(settings.listeners), KRAFT_VERSIONS))
        controls.append((ControlType.KRAFT_VOTERS, voters.to_record()))
    opened.log.append(control_batch(controls, opened.log_metadata.end_offset, epoch, wall_ms))


def recoveries(opened: BootstrappedReplica) -> list[tuple[int, str]]:
    """(offset, mark) of every recovery in a log."""
    return [
        (offset, message.quorum_recovery)
        for base_offset, records in opened.controls
        for offset, (_, message) in enumerate(records, base_offset)
        if isinstance(message, LeaderChangeMessage) and message.quorum_recovery
    ]
