"""Logs, and the defaults that topics inherit.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
message.max.bytes | int | 1048588 | 0.. | cluster-wide | high
    -
delete.topic.enable | boolean | true | any | read-only | high
    -
compression.type | string | producer | uncompressed/zstd/lz4/snappy/gzip/producer | cluster-wide | high
    -
compression.gzip.level | int | -1 | 1..9 or -1 | cluster-wide | medium
    -
compression.lz4.level | int | 9 | 1..17 | cluster-wide | medium
    -
compression.zstd.level | int | 3 | -131072..22 | cluster-wide | medium
    -
default.replication.factor | int | 1 | any | read-only | medium
    -
log.cleaner.threads | int | 1 | 0.. | cluster-wide | medium
    -
log.cleaner.io.max.bytes.per.second | double | 1.7976931348623157E308 | any | cluster-wide | medium
    -
log.cleaner.dedupe.buffer.size | long | 134217728 | any | cluster-wide | medium
    -
log.cleaner.io.buffer.size | int | 524288 | 0.. | cluster-wide | medium
    -
log.cleaner.io.buffer.load.factor | double | 0.9 | any | cluster-wide | medium
    -
log.cleaner.backoff.ms | long | 15000 | 0.. | cluster-wide | medium
    -
log.cleaner.min.cleanable.ratio | double | 0.5 | 0..1 | cluster-wide | medium
    -
log.cleaner.enable | boolean | true | any | read-only | medium
    -
log.cleaner.delete.retention.ms | long | 86400000 | 0.. | cluster-wide | medium
    -
log.cleaner.min.compaction.lag.ms | long | 0 | 0.. | cluster-wide | medium
    -
log.cleaner.max.compaction.lag.ms | long | 9223372036854775807 | 1.. | cluster-wide | medium
    -
num.partitions | int | 1 | 1.. | read-only | medium
    -
log.dir | list | /tmp/kafka-logs | nonempty list | read-only | high
    -
log.dirs | list | null | nonempty list | read-only | high
    -
cordoned.log.dirs | list | "" | list | per-broker | medium
    -
log.segment.bytes | int | 1073741824 | 1048576.. | cluster-wide | high
    -
log.roll.ms | long | null | any | cluster-wide | high
    -
log.roll.hours | int | 168 | 1.. | read-only | high
    -
log.roll.jitter.ms | long | null | any | cluster-wide | high
    -
log.roll.jitter.hours | int | 0 | 0.. | read-only | high
    -
log.retention.ms | long | null | any | cluster-wide | high
    -
log.retention.minutes | int | null | any | read-only | high
    -
log.retention.hours | int | 168 | any | read-only | high
    -
log.retention.bytes | long | -1 | any | cluster-wide | high
    -
log.retention.check.interval.ms | long | 300000 | 1.. | read-only | medium
    -
log.cleanup.policy | list | delete | list of compact/delete | cluster-wide | medium
    -
log.index.size.max.bytes | int | 10485760 | 4.. | cluster-wide | medium
    -
log.index.interval.bytes | int | 4096 | 0.. | cluster-wide | medium
    -
log.flush.interval.messages | long | 9223372036854775807 | 1.. | cluster-wide | high
    -
log.segment.delete.delay.ms | long | 60000 | 0.. | cluster-wide | high
    -
log.flush.scheduler.interval.ms | long | 9223372036854775807 | any | read-only | high
    -
log.flush.interval.ms | long | null | any | cluster-wide | high
    -
log.flush.offset.checkpoint.interval.ms | int | 60000 | 0.. | read-only | high
    -
log.flush.start.offset.checkpoint.interval.ms | int | 60000 | 0.. | read-only | high
    -
log.preallocate | boolean | false | any | cluster-wide | medium
    -
num.recovery.threads.per.data.dir | int | 2 | 1.. | cluster-wide | high
    -
auto.create.topics.enable | boolean | true | any | read-only | high
    -
min.insync.replicas | int | 1 | 1.. | cluster-wide | high
    -
log.message.timestamp.type | string | CreateTime | CreateTime/LogAppendTime | cluster-wide | medium
    -
log.message.timestamp.before.max.ms | long | 9223372036854775807 | 0.. | cluster-wide | medium
    -
log.message.timestamp.after.max.ms | long | 3600000 | 0.. | cluster-wide | medium
    -
create.topic.policy.class.name | class | null | any | read-only | low
    -
alter.config.policy.class.name | class | null | any | read-only | low
    -
log.dir.failure.timeout.ms | long | 30000 | 1.. | read-only | low
    -
log.initial.task.delay.ms | long | 30000 | 0.. | read-only | low internal
    -
"""
