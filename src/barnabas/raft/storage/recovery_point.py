"""A torn end of the log, or damage to what was on disk?

Recovery cuts a log where its batches stop being sound: mostly a crash tore that end, and no client got an
answer for it. A replica in a quorum fetches the lost records again. The only voter has no other replica, and
what was on its disk was committed: if that is gone, so is the cluster's metadata. And a replica that once was
the only voter is it again by a log that ends before others joined: it would elect itself, beside the quorum.
So every controller stores from time to time how far its log is synced (`RecoveryPoint`, Kafka's checkpoint
format, in the log's directory). Where the log would end before that and name no other voter, the controller
does not start but says so.

The mark is a lower bound, and never waited for: it is written after a sync, every `MARK_EVERY_MS` at most and
with every change of voters, so it may lack what was written just before a long silence. A lost or torn one
only lets an end pass that could be damage.
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
    """A log that names no other voter would end before what is known to have been on disk."""

    def __init__(self, path: str, position: int, end: int, synced: int) -> None:
        super().__init__(
            path,
            position,
            f"the metadata log ends at offset {end}, though it was on disk up to offset {synced}; by what is"
            " left of it this node is the only voter, and to start would lose what was decided since: where"
            " others vote, format the directory again (--no-initial-controllers) and add it as a voter;"
            " else put a whole copy of it in its place (brokers have one of the log), or give up what is"
            " missing with barnabas quorum recover --cut",
        )


def marked_offset(disk: Disk, directory: str) -> int:
    """How far the log in `directory` was on disk at least; 0 where nothing says so."""
    try:
        return read_offsets(disk, f"{directory}/{RECOVERY_POINT}").get(_PARTITION, 0)
    except MalformedCheckpoint:
        return 0


def mark(disk: Disk, directory: str, offset: int) -> None:
    """Remember that the log in `directory` is on disk up to `offset`."""
    write_offsets(disk, f"{directory}/{RECOVERY_POINT}", {_PARTITION: offset}, durable=False)


class RecoveryPoint:
    """Of one replica. Disk errors here are ignored: the next sync of the log will report them."""

    def __init__(self, ports: Ports, directory: str) -> None:
        self._ports = ports
        self._directory = directory
        self._written = marked_offset(ports.disk, directory)
        self._next_ms = 0.0

    def update(self, synced: int, voters_offset: int) -> None:
        """The log is on disk up to `synced`; its present voters stand at `voters_offset`."""
        now_ms = self._ports.clock.now_ms()
        is_due = now_ms >= self._next_ms or self._written <= voters_offset < synced
        if synced != self._written and is_due:
            self._next_ms = now_ms + MARK_EVERY_MS
            self._write_later(synced)

    def cut(self, offset: int) -> None:
        """The log was cut: what stood behind `offset` is not missing."""
        if self._written > offset:
            self._write_later(offset)

    def finish(self, synced: int) -> None:
        """At the end of a clean shutdown, at once."""
        if synced != self._written:
            self._write(synced)

    def _write_later(self, offset: int) -> None:
        self._written = offset
        self._ports.background.run("raft-mark", lambda: self._write(offset), lambda _: None)

    def _write(self, offset: int) -> None:
        mark(self._ports.disk, self._directory, offset)


def sound_controls(disk: Disk, directory: str) -> Iterator[tuple[int, list[ControlRecord]]]:
    """(base offset, records) of the control batches before the first damage. Changes nothing."""
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
