"""The metadata quorum, its log and the active controller.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
controller.performance.sample.period.ms | long | 60000 | 100.. | read-only | medium internal
    Accepted for Kafka's sake: each slow turn is logged.
controller.performance.always.log.threshold.ms | long | 2000 | 0.. | read-only | medium internal
    Accepted for Kafka's sake: each slow turn is logged.
metadata.log.max.record.bytes.between.snapshots | long | 20971520 | 1.. | read-only | high
    A snapshot is written after this many bytes of new records.
metadata.log.max.snapshot.interval.ms | long | 3600000 | 0.. | read-only | high
    A snapshot is written after this time, if anything changed.
metadata.log.dir | string | null | any | read-only | high
    Directory of the metadata log; the first of log.dirs if not set.
metadata.log.segment.bytes | int | 1073741824 | 8388608.. | read-only | high
    Size at which a new segment of the metadata log begins.
metadata.log.segment.ms | long | 604800000 | any | read-only | high
    Age at which a new segment of the metadata log begins.
metadata.max.retention.bytes | long | 104857600 | any | read-only | high
    Size of log and snapshots at which the oldest are deleted.
metadata.max.retention.ms | long | 604800000 | any | read-only | high
    Age at which old log and snapshots are deleted.
metadata.max.idle.interval.ms | int | 500 | 0.. | read-only | low
    During a migration from ZooKeeper: idle time after which a NoOpRecord is written for a broker that lags.
internal.metadata.log.segment.bytes | int | null | any | read-only | low internal
    As metadata.log.segment.bytes without its minimum; for tests.
internal.metadata.max.batch.size.in.bytes | int | 8388608 | any | read-only | low internal
    The largest batch of metadata records.
internal.metadata.delete.delay.millis | long | 60000 | any | read-only | low internal
    How long deleted files of the metadata log stay.
unclean.leader.election.interval.ms | long | 300000 | 1.. | read-only | medium internal
    How often the controller looks for partitions that wait for an unclean election.
controller.quorum.voters | list | "" | list | read-only | high
    The voters of a static quorum, as id@host:port entries.
controller.quorum.bootstrap.servers | list | "" | list | read-only | high
    Controllers through which a node finds a dynamic quorum, as host:port entries.
controller.quorum.election.timeout.ms | int | 1000 | 0.. | read-only | high
    How long a candidate waits for votes.
controller.quorum.fetch.timeout.ms | int | 2000 | 0.. | read-only | high
    A voter that gets no answer from a leader for this long starts an election.
controller.quorum.election.backoff.max.ms | int | 1000 | 0.. | read-only | high
    The longest random pause between two elections.
controller.quorum.append.linger.ms | int | 0 | 0.. | read-only | medium
    How long the leader collects records before it appends them.
controller.quorum.request.timeout.ms | int | 2000 | 0.. | read-only | medium
    How long a node of the quorum waits for a response.
controller.quorum.retry.backoff.ms | int | 20 | 0.. | read-only | low
    How long a node of the quorum waits before it sends a request again.
controller.quorum.auto.join.enable | boolean | false | any | read-only | low
    Whether a controller that is no voter adds itself (KIP-853).
controller.quorum.fetch.snapshot.max.bytes | int | 1048576 | 1.. | read-only | low
    The most bytes of a snapshot in one response.
controller.quorum.fetch.max.bytes | int | 1048576 | 1.. | read-only | low
    The most bytes of the metadata log in one response.
"""
