"""The differences between replicas of one partition: batch for batch, over the offsets that both have.

Replicas hold the same batches in the same bytes, so the CRCs, ends and epochs tell. A replica may begin later
(retention) and end earlier (it follows): that is no difference. A compacted partition is cleaned by each
replica for itself and not compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.pipeline.audit.replica_check import Finding, ReplicaReport


def differences(replicas: Sequence[ReplicaReport]) -> list[Finding]:
    """The differences between the replicas of one partition; the longest is what the others are compared
    with."""
    found: list[Finding] = []
    there = [copy for copy in replicas if copy.nexts]
    if len(there) < 2 or any(copy.compacted for copy in there):
        return found
    reference = max(there, key=lambda copy: (copy.end, copy.replica))
    for copy in there:
        if copy is reference:
            continue
        if copy.topic_id != reference.topic_id:
            what = f"its topic has id {copy.topic_id}, on {reference.replica} {reference.topic_id}"
            found.append(Finding(copy.topic, copy.partition, copy.replica, what))
            continue
        found += _difference(copy, reference)
    return found


def _difference(replica: ReplicaReport, reference: ReplicaReport) -> list[Finding]:
    """The first batch that differs, if any: what is behind it follows from it."""
    begin, end = max(replica.start, reference.start), min(replica.end, reference.end)
    mine = _between(replica, begin, end)
    theirs = _between(reference, begin, end)
    at = begin
    for (next_, crc, epoch), other in zip(mine, theirs):
        if (next_, crc, epoch) != other:
            if next_ == other[0] and crc == other[1]:
                what = f"leader epoch {epoch}, on {reference.replica} {other[2]}"
            else:
                what = f"another batch than on {reference.replica}"
            return [_finding(replica, what, at, max(next_, other[0]) - 1)]
        at = next_
    if len(mine) != len(theirs):
        return [
            _finding(replica, f"batches that {reference.replica} has not, or lacks", at, end - 1)
        ]
    return []


def _between(report: ReplicaReport, begin: int, end: int) -> list[tuple[int, int, int]]:
    """Batches that lie in there as a whole."""
    found = []
    first = report.start
    for next_, crc, epoch in zip(report.nexts, report.crcs, report.epochs):
        if first >= begin and next_ <= end:
            found.append((next_, crc, epoch))
        first = next_
    return found


def _finding(replica: ReplicaReport, what: str, first: int, last: int) -> Finding:
    file = ""
    for base, name in replica.files:
        if base <= first:
            file = name
    return Finding(replica.topic, replica.partition, replica.replica, what, first, last, file)
