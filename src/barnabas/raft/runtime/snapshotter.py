"""Taking snapshots of the state machine, and deleting what they make superfluous.

One is begun when enough bytes were applied since the last, or enough time has passed; it is written
one chunk per turn and made durable off the thread, while everything else continues. What retention
does not keep is deleted, the oldest first; also once a minute, for time passes where nothing happens.
Source: KIP-630.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from barnabas.ports import Ports
from barnabas.raft.core import events as on
from barnabas.raft.core.batches import ControlRecord
from barnabas.raft.core.machine import Machine
from barnabas.raft.runtime.applier import Applier
from barnabas.raft.runtime.replica_storage import ReplicaStorage
from barnabas.raft.state_machine import OffsetAndEpoch, StateMachine
from barnabas.raft.storage import snapshot_files
from barnabas.record.builder import ControlType
from barnabas.types import Buffer
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord

QUEUE = "raft-snapshot"
RETENTION_CHECK_MS = 60_000
"""How often retention is checked where no other event makes it run. As in Kafka."""
DOUBT_MS = 5_000
"""A snapshot that many replicas fetch is not read again for each of them."""


class Snapshotter:
    """The snapshots of one replica; at most one is being taken."""

    def __init__(
        self,
        ports: Ports,
        storage: ReplicaStorage,
        machine: Machine,
        applier: Applier,
        state_machine: StateMachine,
        step: Callable[[on.Event], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        """`on_failed` is called where old log cannot be deleted: what is left of it is not known."""
        self._ports = ports
        self._settings = settings = machine.settings
        self._directory, self._log = storage.directory, storage.log
        self._machine = machine
        self._applier = applier
        self._state_machine = state_machine
        self._step = step
        self._on_failed = on_failed
        self._writer: snapshot_files.SnapshotWriter | None = None
        self._chunks: Iterator[Sequence[Buffer]] | None = None
        self._last_ms = ports.clock.now_ms()
        self._bytes_before = 0
        self._cleaned_for: OffsetAndEpoch | None = None
        """The newest snapshot when old ones were last looked for."""
        self._look_ms = RETENTION_CHECK_MS
        if 0 < settings.snapshot_interval_ms_max < RETENTION_CHECK_MS:
            self._look_ms = settings.snapshot_interval_ms_max
        self._doubted_ms = -float(DOUBT_MS)
        """When a snapshot was last read because of a doubt."""
        self.taken = 0
        """Snapshots taken in this run."""

    def start(self) -> None:
        """From now on look once in a while, also where nothing happens."""
        self._ports.wakeups.call_at(self._ports.clock.now_ms() + self._look_ms, self._check)

    def _check(self) -> None:
        if self._applier.stopped:
            return
        latest = self._machine.log.latest_snapshot
        if latest is not None and self._writer is None:
            self._clean_up(latest)
        self.maybe_begin(self._ports.clock.now_ms())
        self.start()

    def maybe_begin(self, now_ms: float) -> bool:
        """Begin one where it is due; clean up behind one that was fetched, or found at the start."""
        latest = self._machine.log.latest_snapshot
        if latest is not None and latest != self._cleaned_for and self._writer is None:
            self._clean_up(latest)
        size = self._applier.applied_bytes - self._bytes_before
        due = size >= self._settings.bytes_between_snapshots
        interval = self._settings.snapshot_interval_ms_max
        if not due and interval > 0 and size > 0:
            due = now_ms - self._last_ms >= interval
        return due and self.begin()

    def begin(self) -> bool:
        """Take one of what is applied now. False where one is being taken or none is possible."""
        latest = self._machine.log.latest_snapshot
        here = OffsetAndEpoch(self._applier.applied_offset, self._applier.applied_epoch)
        if self._writer is not None or (latest is not None and here.offset <= latest.offset):
            return False
        if not self._applier.is_settled:
            return False
        if self._machine.log.synced_offset < here.offset:
            return False  # a snapshot vouches for the log before it; the disk is busy with that
        chunks = self._state_machine.snapshot()
        if chunks is None:
            return False
        self._last_ms = self._ports.clock.now_ms()
        self._bytes_before = self._applier.applied_bytes
        try:
            self._writer = snapshot_files.SnapshotWriter(
                self._ports.disk,
                self._directory,
                here,
                self._applier.applied_timestamp,
                self._controls(here),
                self._ports.clock.wall_ms(),
            )
        except OSError as error:
            self._give_up(error)
            return False
        self._chunks = chunks
        self._ports.wakeups.call_soon(self._write_chunk)
        return True

    def _controls(self, here: OffsetAndEpoch) -> list[ControlRecord]:
        voters, version = self._machine.history.at(here.offset)
        if version < 1:
            return []
        level = KRaftVersionRecord(version=0, k_raft_version=version)
        return [
            (ControlType.KRAFT_VERSION, level),
            (ControlType.KRAFT_VOTERS, voters.to_record()),
        ]

    def _write_chunk(self) -> None:
        writer, chunks = self._writer, self._chunks
        if writer is None or chunks is None or self._applier.stopped:
            return
        wall_ms = self._ports.clock.wall_ms()
        try:
            chunk = next(chunks, None)
            if chunk is None:
                job = writer.freeze_job(wall_ms)
                self._chunks = None
                self._ports.background.run(QUEUE, job, self._on_frozen)
                return
            if chunk:
                writer.add(chunk, wall_ms)
        except OSError as error:
            self._give_up(error)
            return
        self._ports.wakeups.call_soon(self._write_chunk)

    def _on_frozen(self, result: object) -> None:
        writer = self._writer
        if writer is None or self._applier.stopped:
            return
        if isinstance(result, BaseException):
            self._give_up(result)
            return
        self._writer = None
        self.taken += 1
        self._ports.log("info", "raft.snapshot", node=self._settings.node_id, id=str(writer.id))
        latest = self._machine.log.latest_snapshot
        if latest is None or latest.offset < writer.id.offset:
            self._step(on.SnapshotTaken(writer.id))

    def _clean_up(self, latest: OffsetAndEpoch) -> None:
        self._cleaned_for = latest
        try:
            self.clean()
        except OSError as error:
            self._on_failed(error)

    def _give_up(self, error: BaseException) -> None:
        """The disk refused: the next time may do better; the log keeps everything until then."""
        writer, self._writer, self._chunks = self._writer, None, None
        self._ports.log("error", "raft.snapshot_failed", reason=str(error))
        if writer is not None:
            with suppress(OSError, ValueError):  # on a full disk the log needs the room
                writer.abandon()

    def clean(self) -> None:
        """Delete old snapshots by size and age, and with them the log that lies before the oldest one
        kept. Until then the log tells what happened, with reasons, beyond the snapshot (as in Kafka).
        Raises ``OSError``."""
        directory, disk = self._directory, self._ports.disk
        latest = self._machine.log.latest_snapshot
        # One that is being fetched has its name before it is in the place of the log.
        known = [s for s in snapshot_files.snapshots_in(disk, directory) if latest and s <= latest]
        oldest = 0
        total = self._log.size + sum(
            disk.size(f"{directory}/{snapshot_files.file_name(snapshot)}") for snapshot in known
        )
        # What ends below the log's start is of no use: a fetched snapshot replaced the log meanwhile.
        start = self._log.start_offset
        while oldest < len(known) - 1 and (
            known[oldest].offset < start or self._may_go(known[oldest], total)
        ):
            total -= disk.size(f"{directory}/{snapshot_files.file_name(known[oldest])}")
            oldest += 1
        if oldest == 0:
            return
        kept = known[oldest]
        self._log.delete_before(kept.offset)
        self._step(on.LogCleaned(self._log.start_offset, kept))
        for snapshot in known[:oldest]:
            disk.remove(f"{directory}/{snapshot_files.file_name(snapshot)}")

    def on_rot(self, offset: int, error: Exception) -> None:
        """The log is damaged behind `offset`. What a snapshot covers is not needed any more. What none covers
        yet will be by the next one, which is begun; meanwhile another should lead. Raises ``OSError``."""
        node, latest = self._settings.node_id, self._machine.log.latest_snapshot
        self._ports.log("error", "raft.log_corrupt", node=node, offset=offset, reason=str(error))
        if latest is not None and offset < latest.offset:
            self._log.delete_before(latest.offset)
            self._step(on.LogCleaned(self._log.start_offset, latest))
        else:
            self.begin()
            self._step(on.Resign())

    def on_doubt(self, snapshot: OffsetAndEpoch) -> None:
        """A replica fetches `snapshot` again, perhaps because it received damaged bytes. Where the file here
        is damaged, a newer one is begun: before that no replica can be served, nor can this node restart."""
        now = self._ports.clock.now_ms()
        if now - self._doubted_ms < DOUBT_MS:
            return
        self._doubted_ms = now
        disk, bounds = self._ports.disk, self._ports.bounds.raft
        path = f"{self._directory}/{snapshot_files.file_name(snapshot)}"

        def done(result: object) -> None:
            if (
                isinstance(result, snapshot_files.CorruptSnapshotError)
                and not self._applier.stopped
            ):
                self._on_damaged(snapshot, result)

        def check() -> None:
            snapshot_files.SnapshotFile(disk, path, snapshot, bounds).check()

        self._ports.background.run(QUEUE, check, done)

    def _on_damaged(self, snapshot: OffsetAndEpoch, error: Exception) -> None:
        node, latest = self._settings.node_id, self._machine.log.latest_snapshot
        self._ports.log(
            "error", "raft.snapshot_corrupt", node=node, id=str(snapshot), reason=str(error)
        )
        if latest == snapshot and not self.begin() and self._writer is None:
            # No newer record exists for another snapshot until a leader is elected.
            self._step(on.Resign())

    def _may_go(self, snapshot: OffsetAndEpoch, total: int) -> bool:
        limit, age = self._settings.retention_bytes, self._settings.retention_ms
        if 0 <= limit < total:
            return True
        if age < 0:
            return False
        path = f"{self._directory}/{snapshot_files.file_name(snapshot)}"
        try:
            last = snapshot_files.SnapshotFile(
                self._ports.disk, path, snapshot, self._ports.bounds.raft
            ).last_contained_timestamp
        except snapshot_files.CorruptSnapshotError:
            return True  # of no use to any replica, and a newer one exists
        return self._ports.clock.wall_ms() - last > age
