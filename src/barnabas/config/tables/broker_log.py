"""Logs, and the defaults that topics inherit.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
max.decompressed.message.bytes | int | 2147483639 | 1..2147483639 | cluster-wide | medium
    The largest record that is taken in a compressed batch, uncompressed.
message.max.bytes | int | 1048588 | 0.. | cluster-wide | high
    The largest batch that is taken from a producer.
delete.topic.enable | boolean | true | any | read-only | high
    Whether topics can be deleted.
compression.type | string | producer | uncompressed/zstd/lz4/snappy/gzip/producer | cluster-wide | high
    Codec of what is stored; producer keeps the batches as they come.
compression.gzip.level | int | -1 | 1..9 or -1 | cluster-wide | medium
    Level of gzip where the broker compresses.
compression.lz4.level | int | 9 | 1..17 | cluster-wide | medium
    Level of lz4 where the broker compresses.
compression.zstd.level | int | 3 | -131072..22 | cluster-wide | medium
    Level of zstd where the broker compresses.
default.replication.factor | int | 1 | any | read-only | medium
    Replicas of a topic created without a number.
log.cleaner.threads | int | 1 | 0.. | cluster-wide | medium
    Accepted for Kafka's sake: logs are compacted one at a time here.
log.cleaner.io.max.bytes.per.second | double | 1.7976931348623157E308 | any | cluster-wide | medium
    How much compaction may read and write per second.
log.cleaner.dedupe.buffer.size | long | 134217728 | any | cluster-wide | medium
    Memory for the table of keys of compaction.
log.cleaner.io.buffer.size | int | 524288 | 0.. | cluster-wide | medium
    Accepted for Kafka's sake: compaction reads and writes with buffers of a fixed size.
log.cleaner.io.buffer.load.factor | double | 0.9 | any | cluster-wide | medium
    Accepted for Kafka's sake: the memory for the table of keys counts as a whole.
log.cleaner.backoff.ms | long | 15000 | 0.. | cluster-wide | medium
    How long compaction rests when there is nothing to do.
log.cleaner.min.cleanable.ratio | double | 0.5 | 0..1 | cluster-wide | medium
    Share of a log that must be uncompacted before it is compacted.
log.cleaner.enable | boolean | true | any | read-only | medium
    Whether logs are compacted; needed for internal topics.
log.cleaner.delete.retention.ms | long | 86400000 | 0.. | cluster-wide | medium
    How long the mark of a deleted key stays in a compacted log.
log.cleaner.min.compaction.lag.ms | long | 0 | 0.. | cluster-wide | medium
    How long a record stays uncompacted at least.
log.cleaner.max.compaction.lag.ms | long | 9223372036854775807 | 1.. | cluster-wide | medium
    How long a record may wait for compaction at most.
num.partitions | int | 1 | 1.. | read-only | medium
    Partitions of a topic created without a number.
log.dir | list | /tmp/kafka-logs | nonempty list | read-only | high
    Directory of the logs where log.dirs is not given.
log.dirs | list | null | nonempty list | read-only | high
    Directories of the logs; partitions are spread over them.
cordoned.log.dirs | list | "" | list | per-broker | medium
    Directories that get no new partitions (KIP-1066).
log.segment.bytes | int | 1073741824 | 1048576.. | cluster-wide | high
    Size at which a new segment of a log begins.
log.roll.ms | long | null | any | cluster-wide | high
    Age at which a new segment begins, in milliseconds.
log.roll.hours | int | 168 | 1.. | read-only | high
    Age at which a new segment begins, in hours.
log.roll.jitter.ms | long | null | any | cluster-wide | high
    How much that age varies by chance, in milliseconds.
log.roll.jitter.hours | int | 0 | 0.. | read-only | high
    How much that age varies by chance, in hours.
log.retention.ms | long | null | any | cluster-wide | high
    How long records are kept, in milliseconds; -1 is for ever.
log.retention.minutes | int | null | any | read-only | high
    How long records are kept, in minutes.
log.retention.hours | int | 168 | any | read-only | high
    How long records are kept, in hours.
log.retention.bytes | long | -1 | any | cluster-wide | high
    How large a partition may grow before its oldest segments go; -1 is no limit.
log.retention.check.interval.ms | long | 300000 | 1.. | read-only | medium
    How often logs are looked at for segments to delete.
log.cleanup.policy | list | delete | list of compact/delete | cluster-wide | medium
    What happens to old records: deleted, compacted by key, or both.
log.index.size.max.bytes | int | 10485760 | 4.. | cluster-wide | medium
    Size of an offset index.
log.index.interval.bytes | int | 4096 | 0.. | cluster-wide | medium
    How many bytes of a log one entry of its index covers.
log.flush.interval.messages | long | 9223372036854775807 | 1.. | cluster-wide | high
    After how many records a log is forced to disk.
log.segment.delete.delay.ms | long | 60000 | 0.. | cluster-wide | high
    How long a deleted file stays before it is removed.
log.flush.scheduler.interval.ms | long | 9223372036854775807 | any | read-only | high
    How often logs are looked at for what to force to disk.
log.flush.interval.ms | long | null | any | cluster-wide | high
    After how long records are forced to disk.
log.flush.offset.checkpoint.interval.ms | int | 60000 | 0.. | read-only | high
    How often it is noted what is safe on disk.
log.flush.start.offset.checkpoint.interval.ms | int | 60000 | 0.. | read-only | high
    How often the first offsets of logs are noted.
log.preallocate | boolean | false | any | cluster-wide | medium
    Whether a new segment takes its full size on disk at once.
num.recovery.threads.per.data.dir | int | 2 | 1.. | cluster-wide | high
    Accepted for Kafka's sake: logs are recovered one after the other.
auto.create.topics.enable | boolean | true | any | read-only | high
    Whether a request for an unknown topic creates it.
min.insync.replicas | int | 1 | 1.. | cluster-wide | high
    How many replicas must have a record before acks=all is answered.
log.message.timestamp.type | string | CreateTime | CreateTime/LogAppendTime | cluster-wide | medium
    Whether a record's time is when it was made or when it was appended.
log.message.timestamp.before.max.ms | long | 9223372036854775807 | 0.. | cluster-wide | medium
    How far in the past a record's own time may lie.
log.message.timestamp.after.max.ms | long | 3600000 | 0.. | cluster-wide | medium
    How far in the future a record's own time may lie.
create.topic.policy.class.name | class | null | any | read-only | low
    Python class (module:Class) that a controller asks about new topics; see barnabas.policy.
alter.config.policy.class.name | class | null | any | read-only | low
    Python class (module:Class) that a controller asks about changed configurations; see barnabas.policy.
log.dir.failure.timeout.ms | long | 30000 | 1.. | read-only | low
    Accepted for Kafka's sake: a broker that cannot report a failed directory keeps trying.
log.initial.task.delay.ms | long | 30000 | 0.. | read-only | low internal
    How long after the start the care of logs begins.
"""
