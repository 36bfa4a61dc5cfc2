"""What happens to a replica: the inputs of :meth:`barnabas.raft.core.machine.Machine.step`."""

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
    """The requester of `ticket` waits no longer."""

    ticket: int


class Answered(NamedTuple):
    """The response to the request that `Send` gave this id."""

    request_id: int
    response: Response


class Failed(NamedTuple):
    """That request got no response. `unsupported`: the peer does not know its version."""

    request_id: int
    unsupported: bool = False


class PeerGone(NamedTuple):
    """The process behind an endpoint has ended: its connection closed and a new one is refused."""

    endpoint: Endpoint


class Synced(NamedTuple):
    """The log is durable before `offset`."""

    offset: int


class Propose(NamedTuple):
    """Append one batch of `record_count` records, built for this epoch and the log's end."""

    batch: Buffer
    record_count: int


class Resign(NamedTuple):
    """Lead no longer. `for_good`: the process ends."""

    for_good: bool = False


class UpgradeKraftVersion(NamedTuple):
    """Make a static quorum dynamic: write kraft.version 1 and the voters into the log. The leader only;
    answered by a `Reply` with `ChangeVoterResponse`."""

    ticket: int
    level: int
    validate_only: bool = False


class SnapshotTaken(NamedTuple):
    """A snapshot of this replica's own is durable."""

    id: OffsetAndEpoch


class SnapshotInstalled(NamedTuple):
    """The fetched snapshot is durable and the log begins after it. `controls` are its control records."""

    id: OffsetAndEpoch
    controls: tuple[ControlRecord, ...] = ()


class SnapshotRefused(NamedTuple):
    """The fetched snapshot is damaged: begin again."""

    id: OffsetAndEpoch


class LogCleaned(NamedTuple):
    """Old log and snapshots were deleted."""

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
