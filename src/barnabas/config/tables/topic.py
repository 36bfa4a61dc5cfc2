"""What can be set for one topic.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
segment.bytes | int | 1073741824 | 1048576.. | cluster-wide | medium
    -
segment.ms | long | 604800000 | 1.. | cluster-wide | medium
    -
segment.jitter.ms | long | 0 | 0.. | cluster-wide | medium
    -
segment.index.bytes | int | 10485760 | 4.. | cluster-wide | medium
    -
flush.messages | long | 9223372036854775807 | 1.. | cluster-wide | medium
    -
flush.ms | long | 9223372036854775807 | 0.. | cluster-wide | medium
    -
retention.bytes | long | -1 | any | cluster-wide | medium
    -
retention.ms | long | 604800000 | -1.. | cluster-wide | medium
    -
max.message.bytes | int | 1048588 | 0.. | cluster-wide | medium
    -
index.interval.bytes | int | 4096 | 0.. | cluster-wide | medium
    -
delete.retention.ms | long | 86400000 | 0.. | cluster-wide | medium
    -
min.compaction.lag.ms | long | 0 | 0.. | cluster-wide | medium
    -
max.compaction.lag.ms | long | 9223372036854775807 | 1.. | cluster-wide | medium
    -
file.delete.delay.ms | long | 60000 | 0.. | cluster-wide | medium
    -
min.cleanable.dirty.ratio | double | 0.5 | 0..1 | cluster-wide | medium
    -
cleanup.policy | list | delete | list of compact/delete | cluster-wide | medium
    -
unclean.leader.election.enable | boolean | false | any | cluster-wide | medium
    -
min.insync.replicas | int | 1 | 1.. | cluster-wide | medium
    -
compression.type | string | producer | uncompressed/zstd/lz4/snappy/gzip/producer | cluster-wide | medium
    -
compression.gzip.level | int | -1 | 1..9 or -1 | cluster-wide | medium
    -
compression.lz4.level | int | 9 | 1..17 | cluster-wide | medium
    -
compression.zstd.level | int | 3 | -131072..22 | cluster-wide | medium
    -
preallocate | boolean | false | any | cluster-wide | medium
    -
message.timestamp.type | string | CreateTime | CreateTime/LogAppendTime | cluster-wide | medium
    -
message.timestamp.before.max.ms | long | 9223372036854775807 | 0.. | cluster-wide | medium
    -
message.timestamp.after.max.ms | long | 3600000 | 0.. | cluster-wide | medium
    -
leader.replication.throttled.replicas | list | "" | throttled replicas | cluster-wide | medium
    -
follower.replication.throttled.replicas | list | "" | throttled replicas | cluster-wide | medium
    -
remote.storage.enable | boolean | false | any | cluster-wide | medium
    -
local.retention.ms | long | -2 | -2.. | cluster-wide | medium
    -
local.retention.bytes | long | -2 | -2.. | cluster-wide | medium
    -
remote.log.copy.disable | boolean | false | any | cluster-wide | medium
    -
remote.log.delete.on.disable | boolean | false | any | cluster-wide | medium
    -
internal.segment.bytes | int | null | any | cluster-wide | medium internal
    -
"""
