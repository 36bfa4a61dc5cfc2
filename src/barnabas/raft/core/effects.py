"""The outputs of :meth:`barnabas.raft.core.machine.Machine.step`: what a replica wants done, in order.

The order is the durability contract: effects behind a binding `SaveElection` or `InstallSnapshot` are
performed when that has become durable, whichever step they came from.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barnabas.raft.core.batches import ControlRecord
from barnabas.raft.core.election_state import ElectionState
from barnabas.raft.core.messages import Request, Response
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import Buffer, Endpoint


class SaveElection(NamedTuple):
    """Make it durable in ``quorum-state``. Where the epoch or the vote is new (`binding`), everything
    after it waits; who leads is remembered for a quicker start only."""

    election: ElectionState
    binding: bool
    kraft_version: int
    voter_ids: tuple[int, ...]


class Append(NamedTuple):
    """Append whole batches as they stand, the first at `base_offset`: a leader's proposal, or what a
    follower fetched."""

    records: Buffer
    base_offset: int


class AppendControl(NamedTuple):
    """Append one control batch of a new leader or of a change of voters."""

    records: tuple[ControlRecord, ...]
    base_offset: int
    epoch: int


class Truncate(NamedTuple):
    offset: int


class Sync(NamedTuple):
    """Make the log durable; answered by `Synced`. Several may be answered by one."""

    after_answers: bool = False
    """Whether others are answered first, those included whose request is being handled: they sync
    meanwhile."""


SYNC, SYNC_AFTER_ANSWERS = Sync(), Sync(after_answers=True)


class Send(NamedTuple):
    """Send a request; `Answered` or `Failed` follows with the same id."""

    request_id: int
    node_id: int
    """-1 for a bootstrap server."""
    endpoint: Endpoint
    request: Request


class Reply(NamedTuple):
    """The response to the request of this ticket."""

    ticket: int
    response: Response


class Commit(NamedTuple):
    """The high watermark has moved to `offset`."""

    offset: int


class LeaderIs(NamedTuple):
    """Who leads `epoch` (-1: unknown). `start_offset` is where the own epoch begins, if this replica
    is the leader."""

    leader_id: int
    epoch: int
    endpoint: Endpoint | None
    start_offset: int


class StoreSnapshot(NamedTuple):
    """Store a chunk of the snapshot being fetched; `position` 0 starts the file again."""

    id: OffsetAndEpoch
    position: int
    data: Buffer


class InstallSnapshot(NamedTuple):
    """The pieces are complete: verify, make durable, let the log begin after it. Answered by
    `SnapshotInstalled` or `SnapshotRefused`; everything after it waits."""

    id: OffsetAndEpoch


class TickSoon(NamedTuple):
    """Step with a `Tick` when what follows from this step was proposed: one answer then says both."""


class Halt(NamedTuple):
    """This replica's state contradicts the protocol; going on could lose what was committed."""

    reason: str


class QuorumReplaced(NamedTuple):
    """This observer reaches no quorum that continues what it knows: what answers at the addresses of its
    quorum is probably another one."""

    reason: str


Effect: TypeAlias = (
    SaveElection
    | Append
    | AppendControl
    | Truncate
    | Sync
    | Send
    | Reply
    | Commit
    | LeaderIs
    | StoreSnapshot
    | InstallSnapshot
    | TickSoon
    | Halt
    | QuorumReplaced
)
