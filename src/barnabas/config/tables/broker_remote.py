"""Tiered storage (KIP-405): known so that a file which names them is accepted; Barnabas has no remote tier.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
remote.log.storage.system.enable | boolean | false | any | read-only | medium
    Whether there is a remote tier; this version has none.
remote.log.storage.manager.impl.prefix | string | rsm.config. | nonempty | read-only | medium
    Prefix of the remote storage plug-in's own keys.
remote.log.metadata.manager.impl.prefix | string | rlmm.config. | nonempty | read-only | medium
    Prefix of the remote metadata plug-in's own keys.
remote.log.storage.manager.class.name | string | null | nonempty | read-only | medium
    Class of the remote storage plug-in.
remote.log.storage.manager.class.path | string | null | any | read-only | medium
    Class path of the remote storage plug-in.
remote.log.metadata.manager.class.name | string | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | nonempty | read-only | medium
    Class of the remote metadata plug-in.
remote.log.metadata.manager.class.path | string | null | any | read-only | medium
    Class path of the remote metadata plug-in.
remote.log.metadata.manager.listener.name | string | null | nonempty | read-only | medium
    Listener over which the remote metadata plug-in connects.
remote.log.metadata.custom.metadata.max.bytes | int | 128 | 0.. | read-only | low
    How large the remote plug-in's own metadata of a segment may be.
remote.log.index.file.cache.total.size.bytes | long | 1073741824 | 1.. | cluster-wide | low
    Disk space for cached indexes of remote segments.
remote.log.index.file.cache.ttl.ms | long | 900000 | -1.. | read-only | low internal
    How long a cached index of a remote segment stays unused.
remote.log.manager.thread.pool.size | int | 2 | 1.. | read-only | medium
    Threads of the remote tier.
remote.log.manager.copier.thread.pool.size | int | 10 | 1.. | cluster-wide | medium
    Threads that copy segments to the remote tier.
remote.log.manager.expiration.thread.pool.size | int | 10 | 1.. | cluster-wide | medium
    Threads that delete segments of the remote tier.
remote.log.manager.follower.thread.pool.size | int | 2 | 1.. | cluster-wide | medium
    Threads that follow the state of the remote tier.
remote.log.manager.task.interval.ms | long | 30000 | 1.. | read-only | low
    How often the remote tier is taken care of.
remote.log.manager.task.retry.backoff.ms | long | 500 | 1.. | read-only | low internal
    The first rest before the remote tier is tried again.
remote.log.manager.task.retry.backoff.max.ms | long | 30000 | 1.. | read-only | low internal
    The longest rest before the remote tier is tried again.
remote.log.manager.task.retry.jitter | double | 0.2 | 0..0.5 | read-only | low internal
    How much that rest varies by chance.
remote.log.reader.threads | int | 10 | 1.. | cluster-wide | medium
    Threads that read from the remote tier.
remote.log.reader.max.pending.tasks | int | 100 | 1.. | read-only | medium
    Reads of the remote tier that may wait.
log.local.retention.ms | long | -2 | -2.. | cluster-wide | medium
    How long segments stay local once they are remote; -2 takes log.retention.ms.
log.local.retention.bytes | long | -2 | -2.. | cluster-wide | medium
    How much stays local once it is remote; -2 takes log.retention.bytes.
log.remote.copy.lag.ms | long | 0 | -1.. | cluster-wide | medium
    How old a segment becomes before it is copied to the remote tier.
log.remote.copy.lag.bytes | long | -1 | -1.. | cluster-wide | medium
    How much newer data a segment has before it is copied to the remote tier.
remote.log.manager.copy.max.bytes.per.second | long | 9223372036854775807 | 1.. | cluster-wide | medium
    How much may be copied to the remote tier per second.
remote.log.manager.copy.quota.window.num | int | 11 | 1.. | read-only | medium
    Windows over which copying to the remote tier is measured.
remote.log.manager.copy.quota.window.size.seconds | int | 1 | 1.. | read-only | medium
    How long one such window is.
remote.log.manager.fetch.max.bytes.per.second | long | 9223372036854775807 | 1.. | cluster-wide | medium
    How much may be read from the remote tier per second.
remote.log.manager.fetch.quota.window.num | int | 11 | 1.. | read-only | medium
    Windows over which reading from the remote tier is measured.
remote.log.manager.fetch.quota.window.size.seconds | int | 1 | 1.. | read-only | medium
    How long one window of reading is.
remote.fetch.max.wait.ms | int | 500 | 1.. | cluster-wide | medium
    How long a fetch waits for the remote tier.
remote.list.offsets.request.timeout.ms | long | 30000 | 1.. | cluster-wide | medium
    How long a look-up of offsets waits for the remote tier.
follower.fetch.last.tiered.offset.enable | boolean | false | any | cluster-wide | medium
    Whether a new follower begins at what is not remote yet.
"""  # noqa: E501
