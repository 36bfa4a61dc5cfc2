"""Puts bytes of the log and of snapshots into answers, where the machine only said which.

Bytes that rotted on the disk are not sent, for they would hold a follower up for ever: the follower receives
a storage error, and the log that a snapshot covers is given up, so that the next answer is the snapshot.
Pieces of a snapshot are sent unread: the replica that fetches it checks it, and begins again where it is
damaged. A replica whose snapshot is fetched from its start again checks its own copy.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.log.errors import CorruptLogError, OffsetOutOfRange
from barnabas.ports import Disk
from barnabas.raft.core.batches import BatchRun, iter_runs
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.core.messages import (
    FetchResponse,
    ReadLog,
    ReadSnapshot,
    Response,
    SnapshotResponse,
)
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.replica_log import RaftLog
from barnabas.raft.storage.snapshot_files import file_name
from barnabas.record.batch import CorruptBatchError
from barnabas.wire.errors import ErrorCode


class ResponseReader:
    """The reader of one replica. `on_rot` receives the offset from which the log is damaged, `on_doubt` a
    snapshot is fetched once more."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        log: RaftLog,
        log_metadata: LogMetadata,
        on_rot: Callable[[int, Exception], None],
        on_doubt: Callable[[OffsetAndEpoch], None],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._log = log
        self._log_metadata = log_metadata
        self._on_rot = on_rot
        self._on_doubt = on_doubt
        self._begun: OffsetAndEpoch | None = None
        """The snapshot whose first piece was asked for last."""

    def resolved(self, response: Response) -> Response:
        """`response` with its bytes. Raises ``OSError``."""
        if type(response) is FetchResponse:
            read = response.records
            return self._with_records(response, read) if type(read) is ReadLog else response
        if isinstance(response, SnapshotResponse) and isinstance(response.data, ReadSnapshot):
            return self._with_piece(response, response.data)
        return response

    def _with_records(self, response: FetchResponse, read: ReadLog) -> FetchResponse:
        good = read.offset
        try:
            log, wanted = self._log, (read.offset, read.max_bytes, read.end_offset)
            records = log.read_kept(*wanted)
            if records is None:
                records = log.read(*wanted)
                for run in iter_runs(records):
                    _check_place(run, good, self._log_metadata)
                    good = run.end_offset
        except OffsetOutOfRange:  # deleted since the machine decided: the next answer is a snapshot
            return response._replace(error=ErrorCode.UNKNOWN_SERVER_ERROR, records=b"")
        except (CorruptLogError, CorruptBatchError) as error:
            self._on_rot(good, error)
            return response._replace(error=ErrorCode.KAFKA_STORAGE_ERROR, records=b"")
        return FetchResponse(*response[:-1], records)

    def _with_piece(self, response: SnapshotResponse, read: ReadSnapshot) -> SnapshotResponse:
        path = f"{self._directory}/{file_name(read.snapshot)}"
        if not self._disk.exists(path):
            return response._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND, data=b"")
        if read.position == 0:
            if read.snapshot == self._begun:
                self._on_doubt(read.snapshot)
            self._begun = read.snapshot
        file = self._disk.open(path)
        try:
            size = file.size()
            if not 0 <= read.position < size:
                return response._replace(error=ErrorCode.POSITION_OUT_OF_RANGE, data=b"")
            return response._replace(size=size, data=file.read_at(read.position, read.max_bytes))
        finally:
            file.close()


def _check_place(run: BatchRun, offset: int, shape: LogMetadata) -> None:
    """No CRC covers offsets and epochs: `run` has to hold `offset`, in the epoch in which it was appended."""
    if not run.base_offset <= offset < run.end_offset:
        raise CorruptBatchError(run.position, f"offset {offset} is not where it was")
    known = shape.epoch_of(run.base_offset)
    if known not in (run.epoch, -1):
        raise CorruptBatchError(run.position, f"epoch {run.epoch}, which was {known}")
