"""Events: the inputs of :meth:`barnabas.raft.core.machine.Machine.step`."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barnabas.raft.core.batches import ControlRecord
from barnabas.raft.core.messages import Request, Response
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import Buffer, Endpoint


class Tick(NamedTuple):
    """Time passed; also the first event."""


class Asked(NamedTuple):
    """A request came in. `ticket` names it in the `Reply` to come."""

    ticket: int
    request: Request


class Gone(NamedTuple):
    """The requester of `ticket` does not wait any more: its connection closed."""

    ticket: int


class Answered(NamedTuple):
    """The response to the request that `Send` gave this id."""

    request_id: int
    response: Response


class Failed(NamedTuple):
    """The request of this id got no response. `unsupported`: the peer does not support its version."""

    request_id: int
    unsupported: bool = False


class PeerGone(NamedTuple):
    """The process behind an endpoint has ended: its connection closed and a new one is refused."""

    endpoint: Endpoint


class Synced(NamedTuple):
    """The log is durable before `offset`."""

    offset: int


class Propose(NamedTuple):
    """Append one batch of `record_count` records, encoded for the current epoch and log end offset."""

    batch: Buffer
    record_count: int


class Resign(NamedTuple):
    """Give up leadership. `for_good`: the process ends."""

    for_good: bool = False


class UpgradeKraftVersion(NamedTuple):
    """Make a static quorum dynamic: write kraft.version 1 and the voter set into the log. Only for the
    leader. The answer is a `Reply` with a `ChangeVoterResponse`."""

    ticket: int
    level: int
    validate_only: bool = False


class SnapshotTaken(NamedTuple):
    """A snapshot that this replica took is durable."""

    id: OffsetAndEpoch


class SnapshotInstalled(NamedTuple):
    """The fetched snapshot is durable and the log begins after it. `controls` are its control records."""

    id: OffsetAndEpoch
    controls: tuple[ControlRecord, ...] = ()


class SnapshotRefused(NamedTuple):
    """The fetched snapshot is corrupt: fetch it again from the start."""

    id: OffsetAndEpoch


class LogCleaned(NamedTuple):
    """Segments and snapshots before these offsets were deleted."""

    start_offset: int
    earliest_snapshot: OffsetAndEpoch


Event: TypeAlias = (
    Tick
    | Asked
    | Gone
    | Answered
    | Failed
    | PeerGone
    | Synced
    | Propose
    | Resign
    | UpgradeKraftVersion
    | SnapshotTaken
    | SnapshotInstalled
    | SnapshotRefused
    | LogCleaned
)
