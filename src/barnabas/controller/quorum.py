"""What the controller needs of the metadata quorum, and what it is told by it.

Declared here so that the controller imports no Raft: the node passes the quorum's replica, or
another coordination backend, that does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from barnabas.types import Buffer


class Quorum(Protocol):
    """The proposer's side of the metadata log."""

    @property
    def is_leader(self) -> bool:
        """This node leads the quorum and may append."""

    @property
    def end_offset(self) -> int:
        """Offset that the next appended record gets."""

    def append(self, values: list[bytes]) -> int:
        """Append records as one batch; returns the last one's offset. Only where `is_leader`."""


class Committed(NamedTuple):
    """One committed batch. `values` is empty for a batch of control records."""

    last_offset: int
    epoch: int
    append_ms: int
    values: Sequence[Buffer]
