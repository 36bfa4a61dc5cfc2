"""The log directories of brokers, as DescribeLogDirs tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barnabas.wire.errors import ErrorCode


@dataclass(slots=True)
class DirectoryUse:
    """One log directory of a node, as its broker describes it."""

    path: str
    problem: str
    replicas: int
    bytes_held: int
    total: int
    usable: int
    is_cordoned: bool

    @property
    def share(self) -> float | None:
        """The used share of its disk; None if it is not known."""
        return None if self.total <= 0 or self.usable < 0 else 1 - self.usable / self.total


def directories_of(answer: Any) -> list[DirectoryUse]:
    """The directories in a ``DescribeLogDirsResponse``."""
    reasons = {offline.log_dir: offline.reason for offline in answer.offline_reasons}
    return [
        DirectoryUse(
            result.log_dir,
            reasons.get(result.log_dir, "")
            or (ErrorCode(result.error_code).name if result.error_code else ""),
            sum(len(topic.partitions) for topic in result.topics),
            sum(p.partition_size for topic in result.topics for p in topic.partitions),
            result.total_bytes,
            result.usable_bytes,
            result.is_cordoned,
        )
        for result in answer.results
    ]
