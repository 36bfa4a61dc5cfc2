"""Every bound of the process that is no configuration key, in one place, with its reason.

Bounds protect a node from what others send and from its own backlog; each is finite on purpose.
Sizes are bytes, durations milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

IN_FLIGHT_REQUESTS_MAX = 64
"""Requests of one connection that may be under way; reading pauses beyond. Clients send 5 at most."""
UNSENT_BYTES_HIGH = 16 * 1024 * 1024
"""Responses queued on one connection above which its requests are no longer read."""
UNSENT_BYTES_TOTAL = 256 * 1024 * 1024
"""Responses queued on all connections of a node above which a consumer's fetch gets one batch only:
a client that asks for 55 MB on a hundred connections and reads none of it must not take 5 GB."""
RECEIVE_BUFFER_BYTES = 64 * 1024
"""What a connection reads at once when it does not know the size of what comes."""
CONNECTIONS_MAX = 20_000
"""Connections of one node, whatever `max.connections` says: below the usual limit of open files."""
CONNECTIONS_OF_NODES = 128
"""What nodes of the cluster may have beyond `max.connections`, on listeners that clients do not come to.
Files must find a descriptor still where the process may open a thousand in all."""
REQUEST_ELEMENTS_MAX = 1 << 18
"""Structures and strings that stand in the arrays of one request, in all. Two bytes make one, and a few
hundred bytes of memory with its answer: 10 MB of them held a node up for half a minute."""
REPLICAS_ELEMENTS_MAX = 1 << 22
"""The same for what brokers say of all their replicas at once (`Fetch`, `AlterPartition`) and operators of a
whole cluster's (`AlterPartitionReassignments`)."""
DESCRIPTORS_KEPT = 3072
"""Descriptors that connections leave to files, where the process may have that many more."""
LISTEN_BACKLOG = 1024
CONNECT_TIMEOUT_MS = 10_000
"""An address that answers nothing is given up after this."""
AUTHENTICATION_MS_MAX = 30_000
"""A connection whose TLS handshake or SASL exchange takes longer is ended."""
HANDSHAKES_MAX = 1_000
"""TLS handshakes, and SASL exchanges, that one listener has under way; more are refused."""
HANDSHAKE_BYTES_MAX = 256 * 1024
"""What a peer may send before its TLS handshake is over: certificate chains have some 10 KiB."""
SASL_ROUNDS_MAX = 16
"""SaslAuthenticate requests of one exchange."""
SCRAM_ITERATIONS_MAX = 1_000_000
"""Of a server's challenge that a client computes: more would hold up its loop."""
BACKGROUND_THREADS_MAX = 4
"""Threads for work that blocks; more would only queue at the device."""
QUEUES_APART = frozenset({"raft-election", "raft-log", "issuer-keys", "issuer-tokens"})
"""Work that a majority waits for has threads of its own: where all others copy or compact logs, the node
would fall silent as a voter, and lose the leadership. An identity provider may take long to answer."""
WEB_ANSWER_BYTES_MAX = 1024 * 1024
"""Of an identity provider's answer."""
JOB_STUCK_S = 10.0
"""A job that runs for longer no longer counts among those threads: a disk that hangs holds up its own."""
JOB_BRIEF_MS = 0.5
"""A job that is over after this is better done on the node's thread than handed to another one."""
JOBS_BRIEF_WATCHED = 8
"""After a job on the node's thread that took n times as long, n times so many go to another thread: time that
is lost to such jobs is less than an eighth of `JOB_BRIEF_MS` per job."""
BACKGROUND_STUCK_MAX = 28
"""Threads that may be stuck like that."""
DISK_SILENT_MS_MAX = 60_000
"""A log directory of whose jobs none has ended for so long goes offline."""
TURN_MS_MAX = 20
"""A turn of the loop longer than this is logged: others waited."""
SLICE_MS = 5
"""Long computations give way after this much."""
UNPACKED_BYTES_MAX = 64 * 1024 * 1024
"""What a client's compressed batch may unpack to where its records must be looked at, unless
`max.message.bytes` is larger: 33 kB of zstd can claim a gigabyte, and the node would stand still."""
LOG_LINE_CHARS_MAX = 4096
SHUTDOWN_MS_MAX = 4_000
"""A controlled shutdown that takes longer is cut short, so that a node is gone within 5 s."""


@dataclass(frozen=True, slots=True)
class FetchBounds:
    """Of the fetches that a broker serves."""

    cold_reads_max: int = 3
    """Times that a fetch waits for its bytes to be brought into memory; after that it blocks."""
    inline_max: int = 100
    """Partitions that are named, or answered in full, in one turn."""
    followed_per_slice: int = 20
    """Of a larger request, those whose places are noted between two looks at the clock."""
    read_per_slice: int = 20
    """Of a larger full answer, those that are read between two looks at the clock."""
    answered_max: int = 300
    """Partitions of a session that one answer covers, a full one apart: some 10 ms for either side."""
    timed_from: int = 40
    """Partitions that an answer covers before it looks at the clock."""
    session_eviction_ms_min: int = 120_000
    """A session this long without use may be evicted (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""


@dataclass(frozen=True, slots=True)
class FollowerBounds:
    """Of the fetches that a broker sends to leaders."""

    named_max: int = 500
    """New partitions that one request names. A leader takes 40 µs for each."""
    appended_max: int = 150
    """Partitions whose records are appended in one turn at most."""
    timed_from: int = 20
    """Partitions that are appended before the follower looks at the clock."""


@dataclass(frozen=True, slots=True)
class HandlerBounds:
    """Of requests that concern many partitions."""

    appended_inline_max: int = 100
    """Partitions of one Produce that are appended without giving way: some 3 ms."""
    appended_per_slice: int = 20
    """Of a larger one, those that are appended between two looks at the clock."""
    described_inline_max: int = 500
    """Partitions of one Metadata answer that is made in one turn of the loop."""
    described_per_slice: int = 50
    """Of a larger one, those between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class ReplicaBounds:
    """Of what a broker does about its replicas."""

    created_per_turn: int = 8
    """Replicas that new metadata create in one turn at most."""
    changed_per_turn: int = 160
    """Replicas that new metadata change in one turn at most."""
    assignments_max: int = 500
    """Replicas in one AssignReplicasToDirs request."""
    isr_changes_max: int = 500
    """Partitions in one AlterPartition: a thousand take 30 ms to be read and answered in one turn of the
    controller."""
    copied_bytes: int = 1 << 20
    """What one step of a move between log directories copies."""
    records_per_look: int = 64
    """Records that a coordinator replays between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class DecisionBounds:
    """Of the controller's decisions about many partitions."""

    inline_max: int = 200
    """Partitions or topics that are decided in the turn that brings the request."""
    slice_max: int = 50
    """Decided between two looks at the clock: about a millisecond."""
    slices_per_turn: int = 10
    """Slices of one turn, however quick they are."""
    scanned_per_slice: int = 1000
    """Partitions looked at in vain that are a slice, too."""
    leaders_scanned: int = 10_000
    """Leaders looked at in one slice: a third of a millisecond where all partitions have one."""
    moves_max: int = 1000
    """Leaders that one pass of the leader balance moves."""


@dataclass(frozen=True, slots=True)
class RaftBounds:
    """Of the metadata quorum's log and snapshots."""

    applied_bytes: int = 32 * 1024
    """Of log applied per turn: some hundred records. Replay takes 1-2 ms; what a broker does about 500
    changed leaders takes 10."""
    scan_bytes: int = 4 * 1024 * 1024
    """Read in one go when the log is opened."""
    tail_bytes_max: int = 64 * 1024
    """What was appended last is kept in memory up to this size: followers ask for it
    next, and it is applied."""
    tail_appends_max: int = 16
    """So many appends at most."""
    snapshot_read_bytes: int = 256 * 1024
    """Of a snapshot, read in one go."""
    snapshot_values_max: int = 500
    """Of a snapshot, handed on in one go, however large the batches are."""


@dataclass(frozen=True, slots=True)
class LoaderBounds:
    """Of metadata that become a node's image."""

    slice_max: int = 300
    """Records read in one turn."""
    applied_inline_max: int = 600
    """Records that are applied in the turn that brings them."""
    dropped_per_turn: int = 500
    """Topics of an image that was replaced, forgotten in one turn."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Of a broker's logs."""

    loaded_tables_max: int = 512
    """Index tables in memory at once: of a full 1 GiB segment they take 2 and 3 MiB."""
    helped_from_bytes: int = 4 << 20
    """Shorter rounds of compaction are over before a helper process would have begun."""


@dataclass(frozen=True, slots=True)
class ZookeeperBounds:
    """Of a controller whose journal is znodes."""

    operations_max: int = 500
    """Of one transaction."""
    operation_bytes_max: int = 600_000
    """Data of one transaction: below the ensemble's jute.maxbuffer of a megabyte."""
    ordered_max: int = 2_000
    """Partitions in one request to a broker."""


@dataclass(frozen=True, slots=True)
class NodeBounds:
    """How much a node does in one go. The world passes them in (`Ports.bounds`); the simulator passes small
    ones, so that what happens among thousands of partitions happens among a few."""

    fetch: FetchBounds = FetchBounds()
    follower: FollowerBounds = FollowerBounds()
    handlers: HandlerBounds = HandlerBounds()
    replicas: ReplicaBounds = ReplicaBounds()
    decisions: DecisionBounds = DecisionBounds()
    raft: RaftBounds = RaftBounds()
    loader: LoaderBounds = LoaderBounds()
    logs: LogBounds = LogBounds()
    zookeeper: ZookeeperBounds = field(default=ZookeeperBounds(), repr=False)
