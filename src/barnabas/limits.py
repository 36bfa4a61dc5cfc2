"""Every bound of the process that is no configuration key, in one place, with its reason.

Bounds protect a node from what others send and from its own backlog; each is finite on purpose.
Sizes are bytes, durations milliseconds.
"""

from __future__ import annotations

FRAME_BYTES_MIN = 8
"""The shortest request: API key, version, correlation id."""
IN_FLIGHT_REQUESTS_MAX = 64
"""Requests of one connection that may be under way; reading pauses beyond. Clients send 5 at most."""
UNSENT_BYTES_HIGH = 16 * 1024 * 1024
"""Responses queued on one connection above which its requests are no longer read."""
UNSENT_BYTES_LOW = 4 * 1024 * 1024
"""Queued bytes below which the connection's requests are read again."""
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
QUEUES_APART = frozenset({"raft-election", "raft-log"})
"""Work that a majority waits for has threads of its own: where all others copy or compact logs, the node
would fall silent as a voter, and lose the leadership."""
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
