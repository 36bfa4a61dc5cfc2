"""Tiered storage (KIP-405): known so that a file which names them is accepted; Barnabas has no remote tier.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
remote.log.storage.system.enable | boolean | false | any | read-only | medium
    -
remote.log.storage.manager.impl.prefix | string | rsm.config. | nonempty | read-only | medium
    -
remote.log.metadata.manager.impl.prefix | string | rlmm.config. | nonempty | read-only | medium
    -
remote.log.storage.manager.class.name | string | null | nonempty | read-only | medium
    -
remote.log.storage.manager.class.path | string | null | any | read-only | medium
    -
remote.log.metadata.manager.class.name | string | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | nonempty | read-only | medium
    -
remote.log.metadata.manager.class.path | string | null | any | read-only | medium
    -
remote.log.metadata.manager.listener.name | string | null | nonempty | read-only | medium
    -
remote.log.metadata.custom.metadata.max.bytes | int | 128 | 0.. | read-only | low
    -
remote.log.index.file.cache.total.size.bytes | long | 1073741824 | 1.. | cluster-wide | low
    -
remote.log.index.file.cache.ttl.ms | long | 900000 | -1.. | read-only | low internal
    -
remote.log.manager.thread.pool.size | int | 2 | 1.. | read-only | medium
    -
remote.log.manager.copier.thread.pool.size | int | 10 | 1.. | cluster-wide | medium
    -
remote.log.manager.expiration.thread.pool.size | int | 10 | 1.. | cluster-wide | medium
    -
remote.log.manager.follower.thread.pool.size | int | 2 | 1.. | cluster-wide | medium
    -
remote.log.manager.task.interval.ms | long | 30000 | 1.. | read-only | low
    -
remote.log.manager.task.retry.backoff.ms | long | 500 | 1.. | read-only | low internal
    -
remote.log.manager.task.retry.backoff.max.ms | long | 30000 | 1.. | read-only | low internal
    -
remote.log.manager.task.retry.jitter | double | 0.2 | 0..0.5 | read-only | low internal
    -
remote.log.reader.threads | int | 10 | 1.. | cluster-wide | medium
    -
remote.log.reader.max.pending.tasks | int | 100 | 1.. | read-only | medium
    -
log.local.retention.ms | long | -2 | -2.. | cluster-wide | medium
    -
log.local.retention.bytes | long | -2 | -2.. | cluster-wide | medium
    -
remote.log.manager.copy.max.bytes.per.second | long | 9223372036854775807 | 1.. | cluster-wide | medium
    -
remote.log.manager.copy.quota.window.num | int | 11 | 1.. | read-only | medium
    -
remote.log.manager.copy.quota.window.size.seconds | int | 1 | 1.. | read-only | medium
    -
remote.log.manager.fetch.max.bytes.per.second | long | 9223372036854775807 | 1.. | cluster-wide | medium
    -
remote.log.manager.fetch.quota.window.num | int | 11 | 1.. | read-only | medium
    -
remote.log.manager.fetch.quota.window.size.seconds | int | 1 | 1.. | read-only | medium
    -
remote.fetch.max.wait.ms | int | 500 | 1.. | cluster-wide | medium
    -
remote.list.offsets.request.timeout.ms | long | 30000 | 1.. | cluster-wide | medium
    -
follower.fetch.last.tiered.offset.enable | boolean | false | any | cluster-wide | medium
    -
"""  # noqa: E501
