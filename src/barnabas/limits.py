"""Every bound of the process that is not a configuration key, in one place, with its reason.

Bounds protect a node from what its peers send and from its own backlog. Every bound is finite.
Sizes are in bytes, durations in milliseconds, unless the name ends in ``_S``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

IN_FLIGHT_REQUESTS_MAX = 64
"""Unanswered requests of one connection; the node reads no more from it at this number. A client has at most
5 by default."""
UNSENT_BYTES_HIGH = 16 * 1024 * 1024
"""Responses queued on one connection above which its requests are no longer read."""
UNSENT_BYTES_TOTAL = 256 * 1024 * 1024
"""Responses queued on all connections of a node. Above this, a connection that has unread responses is not
served, and the answer to a consumer's fetch has one batch only: a client that fetches 55 MB on each of a
hundred connections and reads nothing must not make the node hold 5 GB."""
FREED_BYTES_RETURNED = 64 * 1024 * 1024
"""The queued responses beyond which, once most are gone, the process returns free memory to the
system."""
RECEIVE_BUFFER_BYTES = 64 * 1024
"""The receive buffer of a connection that does not know the size of the next frame yet."""
CONNECTIONS_MAX = 20_000
"""Connections of one node, whatever `max.connections` says: below the usual limit of open files."""
CONNECTIONS_OF_NODES = 128
"""Connections beyond `max.connections` that nodes of the cluster may have, on listeners that clients do not
use. It is small, so that files still find a descriptor where the process may open only a thousand."""
ARRAY_ELEMENTS_MAX = 1_000_000
"""Elements of one array of a message, as in Apache Kafka."""
TAGGED_FIELDS_MAX = 10_000
"""Tagged fields of one structure of a message, as in Apache Kafka."""
REQUEST_ELEMENTS_MAX = 1 << 18
"""Structures and strings in all arrays of one request together. An element may take two bytes on the wire,
but takes a few hundred bytes of memory with its answer: 10 MB of them blocked a node for half a minute."""
STREAMS_SUBTOPOLOGIES_MAX = 1_000
"""Subtopologies of one Kafka Streams application. Applications have some ten, large ones a few hundred. A
request has room for tens of thousands, and the coordinator works through all of them at once."""
STREAMS_TASKS_MAX = 20_000
"""Tasks of one streams group, without standby tasks. The coordinator assigns so many in a tenth of a second,
and its other groups wait meanwhile. A thousand subtopologies that read one topic of 100 partitions would have
100,000."""
REPLICAS_ELEMENTS_MAX = 1 << 22
"""The same bound for requests in which a broker names all its replicas (``Fetch``, ``AlterPartition``), or an
operator all replicas of the cluster (``AlterPartitionReassignments``)."""
DESCRIPTORS_KEPT = 3072
"""Descriptors that are kept for files; half of all where the process may have fewer than twice as many."""
LISTEN_BACKLOG = 1024
CONNECT_TIMEOUT_MS = 10_000
"""A connection attempt that gets no answer fails after this."""
AUTHENTICATION_MS_MAX = 30_000
"""The node closes a connection whose TLS handshake or SASL exchange takes longer."""
HANDSHAKES_MAX = 1_000
"""Unfinished TLS handshakes of one listener, and likewise SASL exchanges; more are refused."""
HANDSHAKE_BYTES_MAX = 256 * 1024
"""Bytes that a peer may send before its TLS handshake is complete. A certificate chain has about 10 KiB."""
SASL_ROUNDS_MAX = 16
"""SaslAuthenticate requests in one exchange."""
SCRAM_ITERATIONS_MAX = 1_000_000
"""Iterations that a client computes for a server's challenge; more would block the client's event loop."""
BACKGROUND_THREADS_MAX = 4
"""Threads for blocking work; with more, the work would only queue at the disk."""
DEDICATED_QUEUES = frozenset({"raft-election", "raft-log", "issuer-keys", "issuer-tokens"})
"""Queues of background work that have threads of their own. The quorum waits for the first two: if they
waited for threads that copy or compact logs, the voter would not answer and would lose its leadership. The
others wait for an identity provider, which may be slow."""
WEB_ANSWER_BYTES_MAX = 1024 * 1024
"""Size of an identity provider's answer."""
JOB_STUCK_S = 10.0
"""A job that runs for longer counts as stuck, and another thread takes the place of its thread in
`BACKGROUND_THREADS_MAX`. So a disk that hangs delays only its own jobs."""
JOB_BRIEF_MS = 0.5
"""A job that takes no longer than this runs faster on the node's thread than through another thread."""
JOBS_BRIEF_WATCHED = 8
"""Jobs of a queue that go to another thread first, to be timed. After a job on the node's thread that took
n times `JOB_BRIEF_MS`, n times as many go to another thread. So slow jobs cost the node's thread at most an
eighth of `JOB_BRIEF_MS` per job on average."""
BACKGROUND_STUCK_MAX = 28
"""Threads that may be stuck (`JOB_STUCK_S`) at the same time."""
DISK_SILENT_MS_MAX = 60_000
"""A log directory goes offline when it has jobs and none of them ended for this long."""
TURN_MS_MAX = 20
"""A turn of the event loop that takes longer is logged, as all other work waited for it."""
SLICE_MS = 5
"""A long computation lets other work run after this."""
UNPACKED_BYTES_MAX = 64 * 1024 * 1024
"""Uncompressed size of a client's batch whose records must be checked, unless `max.message.bytes` is larger.
33 kB of zstd can claim a gigabyte, which would block the node."""
LOG_LINE_CHARS_MAX = 4096
SHUTDOWN_MS_MAX = 4_000
"""A controlled shutdown that takes longer is cut short, so that the process ends within 5 s."""


@dataclass(frozen=True, slots=True)
class FetchBounds:
    """Bounds of the fetches that a broker serves."""

    cold_reads_max: int = 3
    """Times that a fetch waits while its bytes are read into memory; after that it reads them and blocks."""
    inline_max: int = 100
    """Partitions of a request or a full answer that one turn of the loop handles; a larger one is sliced."""
    followed_per_slice: int = 20
    """Partitions of a larger request whose fetch offsets are noted between two checks of the clock."""
    read_per_slice: int = 20
    """Partitions of a larger full answer that are read between two checks of the clock."""
    answered_max: int = 300
    """Partitions of a session in one incremental answer: about 10 ms of work for each side."""
    timed_from: int = 40
    """Partitions that an answer covers before its time is checked."""
    session_eviction_ms_min: int = 120_000
    """A session this long without use may be evicted (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""


@dataclass(frozen=True, slots=True)
class FollowerBounds:
    """Bounds of the fetches that a follower sends to leaders."""

    named_max: int = 500
    """New partitions in one request. A leader takes 40 µs for each."""
    appended_max: int = 150
    """Partitions whose records are appended in one turn of the loop."""
    timed_from: int = 20
    """Partitions whose records are appended before the follower checks the clock."""


@dataclass(frozen=True, slots=True)
class HandlerBounds:
    """Bounds of requests that concern many partitions."""

    appended_inline_max: int = 100
    """Partitions of a Produce request that is appended in one turn of the loop: about 3 ms."""
    appended_per_slice: int = 20
    """Partitions of a larger request that are appended between two checks of the clock."""
    described_inline_max: int = 500
    """Partitions of a Metadata answer that is made in one turn of the loop."""
    described_per_slice: int = 50
    """Partitions of a larger answer that are described between two checks of the clock."""


@dataclass(frozen=True, slots=True)
class ReplicaBounds:
    """Bounds of a broker's work on its replicas."""

    created_per_turn: int = 8
    """Replicas that new metadata create in one turn of the loop."""
    changed_per_turn: int = 160
    """Replicas that new metadata change in one turn of the loop."""
    assignments_max: int = 500
    """Replicas in one AssignReplicasToDirs request."""
    isr_changes_max: int = 500
    """Partitions in one AlterPartition request. The controller reads and answers a request in one turn of its
    loop; a thousand partitions take 30 ms."""
    copied_bytes: int = 1 << 20
    """Bytes that one step of a move between log directories copies."""
    records_per_look: int = 64
    """Records that a coordinator replays between two checks of the clock."""


@dataclass(frozen=True, slots=True)
class DecisionBounds:
    """Bounds of the controller's decisions about many partitions."""

    inline_max: int = 200
    """Partitions or topics of a request that is decided in one turn of the loop; a larger one is sliced."""
    slice_max: int = 50
    """Decisions of one slice, between two checks of the clock: about a millisecond."""
    slices_per_turn: int = 10
    """Slices in one turn of the loop, however short they are."""
    scanned_per_slice: int = 1000
    """Partitions that a slice examines at most, whether they need a decision or not."""
    leaders_scanned: int = 10_000
    """Partitions in one slice of the scan for partitions without a leader: a third of a millisecond where
    every partition has one."""
    moves_max: int = 1000
    """Leaderships that one pass of the leader balance moves."""


@dataclass(frozen=True, slots=True)
class RaftBounds:
    """Bounds of the work on the metadata quorum's log and snapshots."""

    applied_bytes: int = 32 * 1024
    """Bytes of the log that are applied in one turn of the loop: some hundred records. Their replay takes
    1-2 ms; a broker's work on 500 changed leaders takes 10 ms."""
    scan_bytes: int = 4 * 1024 * 1024
    """Bytes in one read when the log is opened."""
    tail_bytes_max: int = 64 * 1024
    """Bytes at the end of the log that stay in memory: followers fetch them next, and the state machine
    applies them."""
    tail_appends_max: int = 16
    """Appends that are in those bytes."""
    snapshot_read_bytes: int = 256 * 1024
    """Bytes of a snapshot in one read."""
    snapshot_values_max: int = 500
    """Values of a snapshot that the state machine receives together, however large the batches are."""


@dataclass(frozen=True, slots=True)
class LoaderBounds:
    """Bounds of the work that turns metadata records into a node's image."""

    slice_max: int = 300
    """Records that are decoded in one turn of the loop."""
    applied_inline_max: int = 600
    """Records of a commit that is applied in one turn of the loop; a larger one is sliced."""
    dropped_per_turn: int = 500
    """Topics of a replaced image whose memory is released in one turn of the loop."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Bounds of a broker's logs."""

    open_files_max: int = 2048
    """Open files of a broker's logs; the host passes fewer where the process has few descriptors."""
    loaded_tables_max: int = 512
    """Index tables in memory. The two tables of a full 1 GiB segment take 2 MiB and 3 MiB."""
    helped_from_bytes: int = 4 << 20
    """A compaction of fewer bytes ends before a helper process would have started, so it uses none."""


@dataclass(frozen=True, slots=True)
class ZookeeperBounds:
    """Bounds of a controller that keeps its state in znodes."""

    operations_max: int = 500
    """Operations in one ZooKeeper transaction (``multi``)."""
    operation_bytes_max: int = 600_000
    """Paths and data of one transaction: below the ensemble's ``jute.maxbuffer`` of a megabyte."""
    ordered_max: int = 2_000
    """Partitions in one request of the controller to a broker."""


@dataclass(frozen=True, slots=True)
class NodeBounds:
    """How much a node does in one turn of the loop, or keeps in memory. They come in through `Ports.bounds`.
    The simulator passes small ones, so that a few partitions reach the code paths of thousands."""

    fetch: FetchBounds = FetchBounds()
    follower: FollowerBounds = FollowerBounds()
    handlers: HandlerBounds = HandlerBounds()
    replicas: ReplicaBounds = ReplicaBounds()
    decisions: DecisionBounds = DecisionBounds()
    raft: RaftBounds = RaftBounds()
    loader: LoaderBounds = LoaderBounds()
    logs: LogBounds = LogBounds()
    zookeeper: ZookeeperBounds = field(default=ZookeeperBounds(), repr=False)
