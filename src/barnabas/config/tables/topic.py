"""The keys of one topic.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
segment.bytes | int | 1073741824 | 1048576.. | cluster-wide | medium
    Size at which a new segment begins.
segment.ms | long | 604800000 | 1.. | cluster-wide | medium
    Age at which a new segment begins.
segment.jitter.ms | long | 0 | 0.. | cluster-wide | medium
    How much that age varies by chance.
segment.index.bytes | int | 10485760 | 4.. | cluster-wide | medium
    Size of an offset index.
flush.messages | long | 9223372036854775807 | 1.. | cluster-wide | medium
    After how many records the log is forced to disk.
flush.ms | long | 9223372036854775807 | 0.. | cluster-wide | medium
    After how long records are forced to disk.
retention.bytes | long | -1 | any | cluster-wide | medium
    How large a partition may grow before its oldest segments go; -1 is no limit.
retention.ms | long | 604800000 | -1.. | cluster-wide | medium
    How long records are kept; -1 is for ever.
max.message.bytes | int | 1048588 | 0.. | cluster-wide | medium
    The largest batch that is taken from a producer.
max.decompressed.message.bytes | int | 2147483639 | 1..2147483639 | cluster-wide | medium
    The largest record that is taken in a compressed batch, uncompressed.
index.interval.bytes | int | 4096 | 0.. | cluster-wide | medium
    How many bytes of the log one entry of its index covers.
delete.retention.ms | long | 86400000 | 0.. | cluster-wide | medium
    How long the mark of a deleted key stays in a compacted log.
min.compaction.lag.ms | long | 0 | 0.. | cluster-wide | medium
    How long a record stays uncompacted at least.
max.compaction.lag.ms | long | 9223372036854775807 | 1.. | cluster-wide | medium
    How long a record may wait for compaction at most.
file.delete.delay.ms | long | 60000 | 0.. | cluster-wide | medium
    How long a deleted file stays before it is removed.
min.cleanable.dirty.ratio | double | 0.5 | 0..1 | cluster-wide | medium
    Share of the log that must be uncompacted before it is compacted.
cleanup.policy | list | delete | list of compact/delete | cluster-wide | medium
    What happens to old records: deleted, compacted by key, or both.
unclean.leader.election.enable | boolean | false | any | cluster-wide | medium
    Whether a replica outside the ISR may lead when no other can; loses data.
min.insync.replicas | int | 1 | 1.. | cluster-wide | medium
    How many replicas must have a record before acks=all is answered.
compression.type | string | producer | uncompressed/zstd/lz4/snappy/gzip/producer | cluster-wide | medium
    Codec of what is stored; producer keeps the batches as they come.
compression.gzip.level | int | -1 | 1..9 or -1 | cluster-wide | medium
    Level of gzip where the broker compresses.
compression.lz4.level | int | 9 | 1..17 | cluster-wide | medium
    Level of lz4 where the broker compresses.
compression.zstd.level | int | 3 | -131072..22 | cluster-wide | medium
    Level of zstd where the broker compresses.
preallocate | boolean | false | any | cluster-wide | medium
    Whether a new segment takes its full size on disk at once.
message.timestamp.type | string | CreateTime | CreateTime/LogAppendTime | cluster-wide | medium
    Whether a record's time is when it was made or when it was appended.
message.timestamp.before.max.ms | long | 9223372036854775807 | 0.. | cluster-wide | medium
    How far in the past a record's own time may lie.
message.timestamp.after.max.ms | long | 3600000 | 0.. | cluster-wide | medium
    How far in the future a record's own time may lie.
leader.replication.throttled.replicas | list | "" | throttled replicas | cluster-wide | medium
    Replicas whose leaders are throttled, as partition:broker entries, or *.
follower.replication.throttled.replicas | list | "" | throttled replicas | cluster-wide | medium
    Replicas that are throttled as followers, as partition:broker entries, or *.
remote.storage.enable | boolean | false | any | cluster-wide | medium
    Whether segments go to the remote tier; this version has none.
local.retention.ms | long | -2 | -2.. | cluster-wide | medium
    How long segments stay local once they are remote; -2 takes retention.ms.
local.retention.bytes | long | -2 | -2.. | cluster-wide | medium
    How much stays local once it is remote; -2 takes retention.bytes.
remote.copy.lag.ms | long | 0 | -1.. | cluster-wide | medium
    How old a segment becomes before it is copied to the remote tier.
remote.copy.lag.bytes | long | -1 | -1.. | cluster-wide | medium
    How much newer data a segment has before it is copied to the remote tier.
errors.deadletterqueue.group.enable | boolean | false | any | cluster-wide | medium
    Whether share groups may write undeliverable records to the topic.
remote.log.copy.disable | boolean | false | any | cluster-wide | medium
    Whether nothing more is copied to the remote tier.
remote.log.delete.on.disable | boolean | false | any | cluster-wide | medium
    Whether switching the remote tier off deletes what is there.
internal.segment.bytes | int | null | any | cluster-wide | medium internal
    As segment.bytes without its minimum; for tests.
"""
