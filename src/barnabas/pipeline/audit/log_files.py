"""Replicas in the folders of a stopped node: its ``log.dirs``, read file by file, changed in nothing.

Owns what a folder says of its partitions: their names, topic ids, and which were compacted (the cleaner's
checkpoint). A last batch that is cut off is what a killed node leaves; recovery removes it, and it is said as
such.

Source: Kafka's log directory layout; ``partition.metadata``, ``cleaner-offset-checkpoint``.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from barnabas.pipeline.audit.replica_check import ReplicaCheck, ReplicaReport
from barnabas.record.batch import HEADER_SIZE, CorruptBatchError, iterate

PARTITION = re.compile(r"(.+)-(\d+)")
SEGMENT = re.compile(r"(\d{20})\.log")
CLEANER = "cleaner-offset-checkpoint"
METADATA_FILE = "partition.metadata"
CLUSTER_METADATA = "__cluster_metadata"


def partitions_in(folder: str) -> list[tuple[str, int]]:
    """Topics and partitions with a log in the folder. Raises `OSError`."""
    found = []
    for path in sorted(Path(folder).iterdir()):
        named = PARTITION.fullmatch(path.name)
        if named is None or not path.is_dir() or named[1] == CLUSTER_METADATA:
            continue
        if any(SEGMENT.fullmatch(file.name) for file in path.iterdir()):
            found.append((named[1], int(named[2])))
    return found


def check_folder(folder: str, topic: str, partition: int) -> ReplicaReport:
    """Read one replica. Raises `OSError`."""
    directory = Path(folder, f"{topic}-{partition}")
    report = ReplicaReport(topic, partition, folder, _was_compacted(folder, topic, partition))
    report.topic_id = _topic_id(directory / METADATA_FILE)
    check = ReplicaCheck(report)
    segments = sorted(path for path in directory.iterdir() if SEGMENT.fullmatch(path.name))
    for segment in segments:
        base = int(segment.name.removesuffix(".log"))
        report.files.append((base, str(segment)))
        if report.end >= 0 and base > report.end and not report.compacted:
            check.wrong("offsets are missing before the segment", report.end, base - 1, 0)
            report.end = base
        _check_file(check, segment, is_last=segment is segments[-1])
    return report


def _check_file(check: ReplicaCheck, file: Path, *, is_last: bool) -> None:
    size = file.stat().st_size
    if not size:
        return
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = memoryview(data)
        end = 0
        try:
            for batch in iterate(view):
                end = batch.position + len(batch.data)
                check.check_batch(batch)
                batch.data.release()
        except CorruptBatchError as error:
            check.unreadable(error.why, error.position)
            end = size
        left = view[end:]
        # A preallocated file ends in zeros.
        if len(left) and any(left[:HEADER_SIZE]):
            what = "the last batch is cut off"
            if is_last:
                what += ", as a killed node leaves it: recovery removes it"
            check.wrong(f"{what} ({len(left)} bytes)", check.report.end, check.report.end, end)
        left.release()
        view.release()


def _topic_id(file: Path) -> str:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("topic_id")), ""
    )


def _was_compacted(folder: str, topic: str, partition: int) -> bool:
    if topic.startswith("__"):
        return True
    try:
        lines = Path(folder, CLEANER).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.rsplit(" ", 2)[:2] == [topic, str(partition)] for line in lines)
