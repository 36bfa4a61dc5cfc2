"""The recovery point of the metadata log: tells a torn write from damage to synced records.

Recovery truncates a log at its first corrupt batch. Usually a crash tore that batch, and no client got an
answer for it. A replica in a quorum fetches lost records again, but a sole voter cannot: records synced on
its disk were committed, and would be lost. Also, a replica that once was the sole voter would be so again
with a log that ends before others joined: it would elect itself beside the quorum. So every controller stores
how far its log is synced (`RecoveryPoint`, in Kafka's checkpoint format, in the log's directory). If its log
ends before that and names no other voter, the controller refuses to start (`DamagedLogError`).

The recovery point is a lower bound, and nothing waits for it: it is written after a sync, at most every
`MARK_EVERY_MS` and with every change of voters. It may lack the records before a long silence. If it is lost
or torn, damage looks like a torn write.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.log.checkpoints import (
    RECOVERY_POINT,
    MalformedCheckpoint,
    read_offsets,
    write_offsets,
)
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_names import LOG
from barnabas.ports import Disk, Ports
from barnabas.raft.core.batches import ControlRecord, control_records, iter_runs
from barnabas.record.batch import CorruptBatchError
from barnabas.types import METADATA_TOPIC, TopicPartition

MARK_EVERY_MS = 1_000.0
READ_BYTES = 4 * 1024 * 1024
_PARTITION = TopicPartition(METADATA_TOPIC, 0)


class DamagedLogError(CorruptLogError):
    """A log that names no other voter ends before its recovery point."""

    def __init__(self, path: str, position: int, end: int, synced: int) -> None:
        super().__init__(
            path,
            position,
            f"the metadata log ends at offset {end}, but was on disk up to offset {synced}. In what is left"
            " of it this node is the only voter, so starting would lose the records since. If there are other"
            " voters, format the directory again (--no-initial-controllers) and add it as a voter. Otherwise"
            " replace it by an intact copy (brokers have one of the log), or give up the missing records with"
            " barnabas quorum recover --cut",
        )


def marked_offset(disk: Disk, directory: str) -> int:
    """The recovery point of the log in `directory`; 0 if there is none."""
    try:
        return read_offsets(disk, f"{directory}/{RECOVERY_POINT}").get(_PARTITION, 0)
    except MalformedCheckpoint:
        return 0


def mark(disk: Disk, directory: str, offset: int) -> None:
    """Store that the log in `directory` is on disk up to `offset`."""
    write_offsets(disk, f"{directory}/{RECOVERY_POINT}", {_PARTITION: offset}, durable=False)


class RecoveryPoint:
    """The recovery point of one replica. Disk errors are ignored: the next sync of the log reports them."""

    def __init__(self, ports: Ports, directory: str) -> None:
        self._ports = ports
        self._directory = directory
        self._written = marked_offset(ports.disk, directory)
        self._next_ms = 0.0

    def update(self, synced: int, voters_offset: int) -> None:
        """The log is on disk up to `synced`; the record of its current voters is at `voters_offset`."""
        now_ms = self._ports.clock.now_ms()
        is_due = now_ms >= self._next_ms or self._written <= voters_offset < synced
        if synced != self._written and is_due:
            self._next_ms = now_ms + MARK_EVERY_MS
            self._write_later(synced)

    def cut(self, offset: int) -> None:
        """The log was truncated to `offset`: later records are not missing."""
        if self._written > offset:
            self._write_later(offset)

    def finish(self, synced: int) -> None:
        """Write the recovery point at once, at the end of a clean shutdown."""
        if synced != self._written:
            self._write(synced)

    def _write_later(self, offset: int) -> None:
        self._written = offset
        self._ports.background.run("raft-mark", lambda: self._write(offset), lambda _: None)

    def _write(self, offset: int) -> None:
        mark(self._ports.disk, self._directory, offset)


def sound_controls(disk: Disk, directory: str) -> Iterator[tuple[int, list[ControlRecord]]]:
    """(base offset, records) of the control batches before the first corrupt batch. Reads only."""
    for name in sorted(name for name in disk.list_dir(directory) if name.endswith(LOG)):
        file = disk.open(f"{directory}/{name}")
        try:
            position, want = 0, READ_BYTES
            while data := file.read_at(position, want):
                read = 0
                for run in iter_runs(data):
                    read = run.position + run.size
                    if run.is_control:
                        yield run.base_offset, control_records(data[run.position : read])
                if not read and len(data) < want:
                    return
                want = READ_BYTES if read else want * 4  # a batch may be larger
                position += read
        except CorruptBatchError:
            return
        finally:
            file.close()
