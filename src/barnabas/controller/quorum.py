"""The seam between the controller and the metadata quorum: its calls and its events.

It is declared here so that the controller does not import Raft. The node passes the quorum's
replica or another coordination backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from barnabas.types import Buffer, Endpoint
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message


class Quorum(Protocol):
    """The proposer's side of the metadata log."""

    @property
    def is_active(self) -> bool:
        """Whether this node leads and knows it, so that `append` works."""

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """A controller listener of the leader; None if it is unknown."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next appended record gets."""

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: 1 if the quorum's log says who votes."""

    def append(self, values: Sequence[Buffer], /) -> int:
        """Append records that commit all or none; returns the last one's offset."""

    def upgrade_kraft_version(
        self, level: int, encode: Callable[[Any], Message], *, validate_only: bool = False
    ) -> Message | Parked:
        """Raise kraft.version, which the quorum keeps itself. `encode` makes the answer from the quorum's
        result (`error`, `message`)."""


class DecidedBatch(Protocol):
    """One committed batch of records."""

    @property
    def last_offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def append_timestamp(self) -> int:
        """The leader's date, milliseconds since 1970."""

    @property
    def values(self) -> Sequence[Buffer]: ...
