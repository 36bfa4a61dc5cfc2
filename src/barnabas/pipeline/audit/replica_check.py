"""One replica's batches, one after the other: what is wrong, and what other replicas are compared by.

Owns the rules that hold for any log: a CRC matches, offsets go up, leader epochs do not go down, a batch
counts its records; and for a log that was never compacted: no offset is missing, within a batch or between
two.
"""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass, field
from typing import Any

from barnabas.record.batch import BatchView, CorruptBatchError, check_crc

FINDINGS_MAX = 1000
"""The most findings about one replica: more say nothing new."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault and its offsets: `first` up to `last`, both included, -1 where no offset is known.
    `replica` is a broker or a folder, `file` a segment and `position` a byte in it."""

    topic: str
    partition: int
    replica: str
    what: str
    first: int = -1
    last: int = -1
    file: str = ""
    position: int = -1

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition} on {self.replica}"
        if self.file:
            where += f", {self.file} at {self.position}"
        if self.first >= 0:
            where += f", offsets {self.first} to {self.last}"
        return f"{where}: {self.what}"

    def describe(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class ReplicaReport:
    """The content that was read of a replica. Batches are columns: their ends, CRCs and epochs, in order
    of offsets."""

    topic: str
    partition: int
    replica: str
    compacted: bool = False
    topic_id: str = ""
    start: int = -1
    end: int = -1
    records: int = 0
    size: int = 0
    findings: list[Finding] = field(default_factory=list)
    nexts: array[int] = field(default_factory=lambda: array("q"))
    crcs: array[int] = field(default_factory=lambda: array("I"))
    epochs: array[int] = field(default_factory=lambda: array("i"))
    files: list[tuple[int, str]] = field(default_factory=list)
    """From which offset on batches are in which file."""


class ReplicaCheck:
    """Takes the batches of one replica in their order."""

    def __init__(self, report: ReplicaReport) -> None:
        self.report = report
        self._epoch = -1
        self._broken = False
        """Whether bytes before were unreadable, so that a gap is theirs."""

    def wrong(self, what: str, first: int = -1, last: int = -1, position: int = -1) -> None:
        report = self.report
        if len(report.findings) < FINDINGS_MAX:
            file = report.files[-1][1] if report.files else ""
            at = position if file else -1
            report.findings.append(
                Finding(report.topic, report.partition, report.replica, what, first, last, file, at)
            )

    def unreadable(self, why: str, position: int) -> None:
        """Bytes from `position` on are no batch."""
        self.wrong(f"no record batch: {why}", self.report.end, self.report.end, position)
        self._broken = True

    def check_batch(self, batch: BatchView) -> None:
        report, header = self.report, batch.header
        first, last = header.base_offset, header.next_offset - 1
        try:
            check_crc(header, batch.data)
        except CorruptBatchError as error:
            self.wrong(error.why, first, last, batch.position)
        if report.start < 0:
            report.start = first
        elif first < report.end:
            self.wrong(
                f"offsets go back: the batch before ends at {report.end}",
                first,
                last,
                batch.position,
            )
        elif first > report.end and not report.compacted and not self._broken:
            self.wrong("offsets are missing", report.end, first - 1, batch.position)
        if not report.compacted and header.record_count != header.last_offset_delta + 1:
            what = f"the batch has {header.record_count} records for {last - first + 1} offsets"
            self.wrong(what, first, last, batch.position)
        if header.leader_epoch < self._epoch:
            what = f"the leader epoch goes back from {self._epoch} to {header.leader_epoch}"
            self.wrong(what, first, last, batch.position)
        self._broken = False
        self._epoch = max(self._epoch, header.leader_epoch)
        report.end = max(report.end, header.next_offset)
        report.records += header.record_count
        report.size += len(batch.data)
        report.nexts.append(header.next_offset)
        report.crcs.append(header.crc)
        report.epochs.append(header.leader_epoch)
