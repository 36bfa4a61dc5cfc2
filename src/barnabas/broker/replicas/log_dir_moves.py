"""Moves replicas between the log directories of this broker while they keep leading and following.

A move copies the current log into a future one in slices of at most a batch or a mebibyte, one move after
the other. When the copy has caught up, the move syncs it and reports the new directory to the controller
(KIP-858). When the controller has agreed and the copy has caught up again, the logs change places in one turn
of the loop. Copying takes at most half of the broker's time, and at most
``replica.alter.log.dirs.io.max.bytes.per.second``.

A move ends if one of the two logs is gone. The other log stays, and the broker reports its
directory to the controller again. A move continues after a restart: a broker that finds a future
log at its start resumes it.

Source: ``ReplicaAlterLogDirsThread``, ``ReplicaManager.alterReplicaLogDirs`` of Apache Kafka 4.3 for
behaviour; KIP-113, KIP-858. Kafka's ``ReplicaAlterLogDirsManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from barnabas.broker.partitions.partition import Partition
from barnabas.broker.replicas.directory_assignments import DirectoryAssignments
from barnabas.broker.replicas.replica_table import ReplicaTable
from barnabas.log.config import FOREVER_MS
from barnabas.log.directories.future_log_copy import align, append_run, begin
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.errors import OffsetOutOfRange
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports, Wakeup
from barnabas.record.batch import CorruptBatchError
from barnabas.types import Buffer, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError, code_of

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
COPY_RETRY_MS = 500.0
"""Delay after an error, and between two checks whether the controller has agreed."""
SYNCS_BEFORE_BLOCKING = 3
"""The number of syncs in the background before the last few batches are synced in the turn of the
swap. A log with constant appends would always be ahead of its synced copy."""
PREFERRED_MAX = 10_000


class AssignmentState(Enum):
    """Whether the controller knows the new directory."""

    NOTHING = "nothing"
    ASKED = "asked"
    AGREED = "agreed"


class LogDirMove:
    """The move of one replica."""

    def __init__(self, partition: Partition, source: PartitionLog, copy: PartitionLog) -> None:
        self.partition = partition
        self.source = source
        self.copy = copy
        self.begun = False
        self.truncation_count = -1
        """The source's count of truncations when the copy was last aligned with it."""
        self.assignment = AssignmentState.NOTHING
        self.syncs = 0
        self.due_ms = 0.0
        self.waits = False
        """Whether a job on the disk is under way; the next step follows its end."""
        self.is_warm = False
        """Whether a job has just read the next bytes: they are in memory, or reading them again
        reports the disk's error."""
        self.failure = ""

    def describe(self) -> dict[str, object]:
        return {
            "copied_to": self.copy.log_end_offset,
            "end": self.source.log_end_offset,
            "controller": self.assignment.value,
            "failure": self.failure,
        }


class LogDirMoves:
    """All moves of one broker."""

    def __init__(
        self,
        ports: Ports,
        replicas: ReplicaTable,
        assignments: DirectoryAssignments,
        broker_texts: Callable[[], dict[str, str]],
    ) -> None:
        self._ports = ports
        self._copied_bytes = ports.bounds.replicas.copied_bytes
        self._logs = replicas.logs
        self._find: Callable[[TopicPartition], Partition | None] = replicas.by_name.get
        self._assignments = assignments
        self._texts = broker_texts
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._wakeup: Wakeup | None = None
        self._free_at_ms = 0.0
        """The time before which nothing is copied, so that the rate of the last copies holds."""
        self._preferred = replicas.directories.preferred

    # -- beginning and ending --------------------------------------------------------------------

    def move(self, name: TopicPartition, directory: LogDirectory) -> None:
        """Move the replica to `directory`. If it is there already, a move elsewhere is cancelled.
        Raises :class:`KafkaError`."""
        partition = self._find(name)
        if partition is not None and partition.log is None:
            raise partition.offline()
        futures = self._logs.futures
        if futures.directory_of(name) not in (None, directory):
            self.call_off(name, "it goes elsewhere")
            futures.drop(name)
        if partition is None or partition.log is None:
            self._prefer(name, directory)
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{name} is not here yet")
        if self._logs.directory_of(name) is directory:
            return
        offline = [d.path for d in self._logs.directories if not d.is_online]
        if name not in futures.logs and offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the copy of {name} may be in {', '.join(offline)}, which is offline",
            )
        if name not in futures.logs:
            futures.create(name, directory, partition.log)
        self.resume_move(partition)

    def _prefer(self, name: TopicPartition, directory: LogDirectory) -> None:
        self._preferred.pop(name, None)
        self._preferred[name] = directory.directory_id
        if len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def ask_again(self) -> None:
        """Report every new directory to the controller again: it may have forgotten them (a
        recovered quorum), or a new metadata version may keep directories for the first time."""
        for move in self._moves.values():
            if move.assignment is AssignmentState.AGREED:
                move.assignment = AssignmentState.NOTHING

    def resume(self) -> None:
        """Continue every move that has a future log on disk."""
        for name in sorted(self._logs.futures.logs):
            partition = self._find(name)
            if partition is not None:
                self.resume_move(partition)

    def resume_move(self, partition: Partition) -> None:
        name, source = partition.name, partition.log
        copy = self._logs.futures.logs.get(name)
        if source is None or copy is None or name in self._moves:
            return
        self._moves[name] = LogDirMove(partition, source, copy)
        self._logs.cleaner.pause(name)
        self._ports.log(
            "info", "log.moving", partition=str(name), to=copy.directory, end=source.log_end_offset
        )
        self._arm()

    def call_off(self, name: TopicPartition, reason: str) -> None:
        """End a move. The caller decides about its files."""
        move = self._moves.pop(name, None)
        if move is None:
            return
        self._logs.cleaner.resume(name)
        self._ports.log("info", "log.move_called_off", partition=str(name), reason=reason)
        directory = self._directory_of(move.source)
        if move.assignment is not AssignmentState.NOTHING and directory is not None:
            self._assignments.submit(move.partition, directory.directory_id)

    def end_stale_moves(self) -> None:
        """End the moves whose logs are not both there any more."""
        for move in list(self._moves.values()):
            self._still_holds(move)

    def _directory_of(self, log: PartitionLog) -> LogDirectory | None:
        """The directory of a log, even if it is offline."""
        path = log.directory.rsplit("/", 1)[0]
        return next((d for d in self._logs.directories if d.path == path), None)

    def close(self) -> None:
        self._moves.clear()
        if self._wakeup is not None:
            self._wakeup.cancel()

    # -- steps -----------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Set the wake-up for the move that is due first."""
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        waiting = [move.due_ms for move in self._moves.values() if not move.waits]
        if waiting:
            when = max(min(waiting), self._free_at_ms)
            self._wakeup = self._ports.wakeups.call_at(when, self._on_wakeup)

    def _on_wakeup(self) -> None:
        self._wakeup = None
        began = self._ports.clock.now_ms()
        due = [m for m in self._moves.values() if not m.waits and m.due_ms <= began]
        if due:
            move = min(due, key=lambda move: move.due_ms)
            try:
                copied = self._try_step(move)
            except Exception as error:  # a bug: raise it, and let other moves continue
                self._retry(move, repr(error))
                self._arm()
                raise
            now = self._ports.clock.now_ms()
            move.due_ms = max(move.due_ms, now)
            rate = float(self._texts().get(RATE) or 0)
            paid = copied * 1000 / rate if rate > 0 else 0.0
            self._free_at_ms = now + max(now - began, paid)
        self._arm()

    def _try_step(self, move: LogDirMove) -> int:
        """Make one step, and return how many bytes it copied. After a disk error the directory is
        offline."""
        name = move.partition.name
        try:
            if not self._still_holds(move):
                return 0
            return self._step(move)
        except KafkaError as error:
            self._retry(move, error.message or error.code.name)
        except CorruptBatchError as error:
            self._retry(move, str(error))
        except OSError as error:
            # The current log reports its own errors: this error is the copy's.
            directory = self._directory_of(move.copy)
            if directory is not None:
                self._logs.fail(
                    directory, f"copying {name} to {move.copy.directory} failed: {error}"
                )
            move.due_ms = 0.0
        return 0

    def _retry(self, move: LogDirMove, why: str) -> None:
        if why != move.failure:
            move.failure = why
            self._ports.log(
                "warning", "log.move_waits", partition=str(move.partition.name), reason=why
            )
        move.due_ms = self._ports.clock.now_ms() + COPY_RETRY_MS

    def _still_holds(self, move: LogDirMove) -> bool:
        """Whether both logs exist; if not, the move ends."""
        name = move.partition.name
        if self._logs.futures.logs.get(name) is not move.copy:
            self.call_off(name, "the directory it goes to failed, or it goes elsewhere")
        elif self._find(name) is not move.partition or move.partition.log is None:
            self.call_off(name, "the replica is gone")
        elif move.partition.log is not move.source:
            self.call_off(name, "the replica has another log")
            self.resume_move(move.partition)
        else:
            return True
        return False

    def _step(self, move: LogDirMove) -> int:
        source, copy = move.source, move.copy
        copied = 0
        if not move.begun:
            begin(source, copy)
            move.begun = True
        if (
            source.generations.truncation_count != move.truncation_count
            or copy.log_end_offset < source.log_start_offset
        ):
            align(source, copy)
            move.truncation_count = source.generations.truncation_count
        if copy.log_end_offset < source.log_end_offset:
            run = self._read(move)
            if run is None:
                return 0
            copied = append_run(source, copy, run)
            if not copied:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "nothing can be read")
        move.failure = ""
        if copy.log_end_offset == source.log_end_offset:
            self._on_caught_up(move)
        return copied

    def _read(self, move: LogDirMove) -> Buffer | None:
        """The next bytes; None if a job has to read them from the disk first."""
        offset = move.copy.log_end_offset
        block, move.is_warm = move.is_warm, False
        try:
            found = move.partition.read(
                offset, self._copied_bytes, None, at_least_one=True, block=block
            )
        except OffsetOutOfRange:
            move.truncation_count = -1  # aligned with the next step
            return None
        if found is None:
            self._read_in_background(move, offset)
            return None
        return found.records

    def _read_in_background(self, move: LogDirMove, offset: int) -> None:
        job = move.source.read_job(offset, self._copied_bytes)
        move.waits = True

        def done(_: Buffer | BaseException) -> None:
            # The bytes are in memory now, or the next read raises the disk's error.
            move.waits, move.is_warm = False, True
            self._arm()

        self._ports.background.run(f"move {move.source.directory}", job, done)

    # -- caught up -------------------------------------------------------------------------------

    def _on_caught_up(self, move: LogDirMove) -> None:
        """Make the next step that is missing before the logs may change places."""
        source, copy, name = move.source, move.copy, move.partition.name
        # With ``flush.messages`` the new log has to be synced whole; else as far as the old one
        # was.
        waits = source.config.flush_messages < FOREVER_MS
        durable = source.log_end_offset if waits else source.recovery_point
        if not move.syncs or copy.recovery_point < durable:
            if move.syncs < SYNCS_BEFORE_BLOCKING:
                self._sync(move)
                return
            copy.flush()
        if move.assignment is AssignmentState.NOTHING:
            self._report_assignment(move)
        if move.assignment is not AssignmentState.AGREED:
            move.due_ms = self._ports.clock.now_ms() + COPY_RETRY_MS
            return
        log = self._logs.futures.replace_current(name)
        move.partition.log = log
        self._moves.pop(name, None)
        self._logs.cleaner.resume(name)

    def _sync(self, move: LogDirMove) -> None:
        move.syncs += 1
        move.waits = True

        def done() -> None:
            move.waits = False
            self._arm()

        self._logs.futures.sync(move.partition.name, done)

    def _report_assignment(self, move: LogDirMove) -> None:
        directory = self._directory_of(move.copy)
        assert directory is not None
        move.assignment = AssignmentState.ASKED

        def on_answer(code: int) -> None:
            if self._moves.get(move.partition.name) is not move:
                return
            if code == ErrorCode.NONE:
                move.assignment = AssignmentState.AGREED
                move.due_ms = 0.0
            else:
                move.assignment = AssignmentState.NOTHING
                self._retry(move, f"the controller says {code_of(code).name}")
            self._arm()

        self._assignments.submit(move.partition, directory.directory_id, on_answer)

    def describe(self) -> dict[str, object]:
        return {str(name): move.describe() for name, move in sorted(self._moves.items())}
