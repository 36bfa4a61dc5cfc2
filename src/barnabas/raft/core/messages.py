"""The messages between replicas, as values: the protocol without its wire form.

One request and one response per RPC. Every response tells the answering replica's epoch and
leader as it knows them, whatever else it says. :mod:`barnabas.raft.wire.wire_mapping` turns them into
Kafka's messages and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import Buffer, Endpoint
from barnabas.wire.errors import ErrorCode

NO_HIGH_WATERMARK_KNOWN = 2**63 - 1
"""The high watermark in a Fetch below version 18, from a follower that cannot say its own."""


class VoteRequest(NamedTuple):
    """May I lead? With `pre_vote`: could I, if I asked? `epoch` is then the present one."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey | None
    """Whom the sender means; None where it does not say."""
    last: OffsetAndEpoch
    pre_vote: bool = False


class VoteResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint | None
    granted: bool


class BeginEpochRequest(NamedTuple):
    """I lead this epoch."""

    epoch: int
    leader_id: int
    voter: ReplicaKey | None
    leader_endpoints: Mapping[str, Endpoint]


class BeginEpochResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint | None


class EndEpochRequest(NamedTuple):
    """I lead this epoch no longer; these may follow, the best first."""

    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...]
    leader_endpoints: Mapping[str, Endpoint]


class EndEpochResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint | None


class FetchRequest(NamedTuple):
    """The question for what follows `offset`. That is as far as the sender's log is durable; the record
    before it is of epoch `last_epoch`."""

    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int
    max_wait_ms: int
    max_bytes: int
    high_watermark: int = NO_HIGH_WATERMARK_KNOWN


class ReadLog(NamedTuple):
    """In the place of records: the world reads them from the log when it performs the reply."""

    offset: int
    end_offset: int
    max_bytes: int


class FetchResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint | None
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    records: Buffer | ReadLog = b""


class SnapshotRequest(NamedTuple):
    """The bytes of a snapshot from `position` on."""

    epoch: int
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


class ReadSnapshot(NamedTuple):
    """In the place of data: the world reads it from the snapshot's file."""

    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


class SnapshotResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint | None
    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    data: Buffer | ReadSnapshot = b""


class AddVoterRequest(NamedTuple):
    voter: ReplicaKey
    endpoints: Mapping[str, Endpoint]
    timeout_ms: int
    ack_when_committed: bool = True


class RemoveVoterRequest(NamedTuple):
    voter: ReplicaKey
    timeout_ms: int = 30_000


class UpdateVoterRequest(NamedTuple):
    epoch: int
    voter: ReplicaKey
    endpoints: Mapping[str, Endpoint]
    versions: tuple[int, int]


class ChangeVoterResponse(NamedTuple):
    """To AddVoter, RemoveVoter and UpdateVoter alike."""

    error: ErrorCode
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint | None
    message: str = ""


class FeaturesRequest(NamedTuple):
    """Which levels of kraft.version do you support? (ApiVersions.)"""


class FeaturesResponse(NamedTuple):
    error: ErrorCode
    kraft_versions: tuple[int, int]


class ReplicaPosition(NamedTuple):
    key: ReplicaKey
    end_offset: int
    last_fetch_ms: float | None
    """None: never. Of the leader itself: now."""
    last_caught_up_ms: float | None


class DescribeRequest(NamedTuple):
    pass


class DescribeResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint | None
    high_watermark: int = -1
    voters: tuple[ReplicaPosition, ...] = ()
    observers: tuple[ReplicaPosition, ...] = ()


Request: TypeAlias = (
    VoteRequest
    | BeginEpochRequest
    | EndEpochRequest
    | FetchRequest
    | SnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | DescribeRequest
    | FeaturesRequest
)
Response: TypeAlias = (
    VoteResponse
    | BeginEpochResponse
    | EndEpochResponse
    | FetchResponse
    | SnapshotResponse
    | ChangeVoterResponse
    | DescribeResponse
    | FeaturesResponse
)
