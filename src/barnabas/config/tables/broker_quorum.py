"""The metadata quorum, its log and the active controller.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
controller.performance.sample.period.ms | long | 60000 | 100.. | read-only | medium internal
    Accepted for Kafka's sake: the log tells of each turn that was slow.
controller.performance.always.log.threshold.ms | long | 2000 | 0.. | read-only | medium internal
    Accepted for Kafka's sake: the log tells of each turn that was slow.
metadata.log.max.record.bytes.between.snapshots | long | 20971520 | 1.. | read-only | high
    A snapshot is written after this much new metadata.
metadata.log.max.snapshot.interval.ms | long | 3600000 | 0.. | read-only | high
    A snapshot is written after this long, if anything changed.
metadata.log.dir | string | null | any | read-only | high
    Directory of the metadata log; the first of log.dirs where not given.
metadata.log.segment.bytes | int | 1073741824 | 8388608.. | read-only | high
    Size at which a new segment of the metadata log begins.
metadata.log.segment.ms | long | 604800000 | any | read-only | high
    Age at which a new segment of the metadata log begins.
metadata.max.retention.bytes | long | 104857600 | any | read-only | high
    Size of log and snapshots at which the oldest are deleted.
metadata.max.retention.ms | long | 604800000 | any | read-only | high
    Age at which old log and snapshots are deleted.
metadata.max.idle.interval.ms | int | 500 | 0.. | read-only | low
    Of a cluster that migrates: how long the log is idle before a NoOpRecord is written for a broker behind.
internal.metadata.log.segment.bytes | int | null | any | read-only | low internal
    As metadata.log.segment.bytes without its minimum; for tests.
internal.metadata.max.batch.size.in.bytes | int | 8388608 | any | read-only | low internal
    The largest batch of metadata records.
internal.metadata.delete.delay.millis | long | 60000 | any | read-only | low internal
    How long deleted files of the metadata log stay.
unclean.leader.election.interval.ms | long | 300000 | 1.. | read-only | medium internal
    How often partitions that wait for an unclean election are looked for.
controller.quorum.voters | list | "" | list | read-only | high
    The voters of a static quorum, as id@host:port entries.
controller.quorum.bootstrap.servers | list | "" | list | read-only | high
    Where a dynamic quorum is found, as host:port entries.
controller.quorum.election.timeout.ms | int | 1000 | 0.. | read-only | high
    How long a candidate waits for votes.
controller.quorum.fetch.timeout.ms | int | 2000 | 0.. | read-only | high
    A voter that hears no leader for this long calls an election.
controller.quorum.election.backoff.max.ms | int | 1000 | 0.. | read-only | high
    The longest random rest between two elections.
controller.quorum.append.linger.ms | int | 0 | 0.. | read-only | medium
    How long the leader gathers records before it writes them.
controller.quorum.request.timeout.ms | int | 2000 | 0.. | read-only | medium
    How long a voter waits for an answer.
controller.quorum.retry.backoff.ms | int | 20 | 0.. | read-only | low
    How long a voter rests before it asks again.
controller.quorum.auto.join.enable | boolean | false | any | read-only | low
    Whether a controller that is no voter adds itself (KIP-853).
controller.quorum.fetch.snapshot.max.bytes | int | 1048576 | 1.. | read-only | low
    How much of a snapshot one answer holds.
controller.quorum.fetch.max.bytes | int | 1048576 | 1.. | read-only | low
    How much of the metadata log one answer holds.
"""
