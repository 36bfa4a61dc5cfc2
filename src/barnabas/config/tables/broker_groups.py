"""Group coordinators: offsets, classic, consumer, share and streams groups.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
group.coordinator.rebalance.protocols | list | classic,consumer,streams | nonempty list of consumer/classic/share/streams | read-only | medium
    -
group.coordinator.threads | int | 4 | 1.. | read-only | high
    -
group.coordinator.background.threads | int | 2 | 1.. | read-only | high
    -
group.coordinator.append.linger.ms | int | -1 | -1.. | read-only | medium
    -
offsets.commit.timeout.ms | int | 5000 | 1.. | read-only | high
    -
offsets.load.buffer.size | int | 5242880 | 1.. | read-only | high
    -
offsets.topic.replication.factor | short | 3 | 1.. | read-only | high
    -
offsets.topic.num.partitions | int | 50 | 1.. | read-only | high
    -
offsets.topic.segment.bytes | int | 104857600 | 1.. | read-only | high
    -
offsets.topic.compression.codec | int | 0 | any | read-only | high
    -
group.coordinator.cached.buffer.max.bytes | int | 1048588 | 524288.. | cluster-wide | medium
    -
offset.metadata.max.bytes | int | 4096 | any | read-only | high
    -
offsets.retention.minutes | int | 10080 | 1.. | read-only | high
    -
offsets.retention.check.interval.ms | long | 600000 | 1.. | read-only | high
    -
group.min.session.timeout.ms | int | 6000 | any | read-only | medium
    -
group.max.session.timeout.ms | int | 1800000 | any | read-only | medium
    -
group.initial.rebalance.delay.ms | int | 3000 | any | read-only | medium
    -
group.max.size | int | 2147483647 | 1.. | read-only | medium
    -
group.consumer.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    -
group.consumer.min.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    -
group.consumer.max.session.timeout.ms | int | 60000 | 1.. | read-only | medium
    -
group.consumer.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    -
group.consumer.min.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    -
group.consumer.max.heartbeat.interval.ms | int | 15000 | 1.. | read-only | medium
    -
group.consumer.max.size | int | 2147483647 | 1.. | read-only | medium
    -
group.consumer.assignors | list | uniform,range | nonempty list | read-only | medium
    -
group.consumer.migration.policy | string | bidirectional | ~DISABLED/DOWNGRADE/UPGRADE/BIDIRECTIONAL | read-only | medium
    -
group.consumer.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    -
group.consumer.min.assignment.interval.ms | int | 0 | 0.. | read-only | medium
    -
group.consumer.max.assignment.interval.ms | int | 15000 | 0.. | read-only | medium
    -
group.consumer.regex.refresh.interval.ms | int | 600000 | 10000.. | read-only | medium internal
    -
group.share.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    -
group.share.min.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    -
group.share.max.session.timeout.ms | int | 60000 | 1.. | read-only | medium
    -
group.share.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    -
group.share.min.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    -
group.share.max.heartbeat.interval.ms | int | 15000 | 1.. | read-only | medium
    -
group.share.max.size | int | 200 | 1..1000 | read-only | medium
    -
group.share.assignors | list | simple | nonempty list | read-only | medium
    -
group.share.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    -
group.share.min.assignment.interval.ms | int | 0 | 0.. | read-only | medium
    -
group.share.max.assignment.interval.ms | int | 15000 | 0.. | read-only | medium
    -
group.share.initialize.retry.interval.ms | int | 30000 | 1.. | read-only | low internal
    -
group.streams.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    -
group.streams.min.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    -
group.streams.max.session.timeout.ms | int | 60000 | 1.. | read-only | medium
    -
group.streams.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    -
group.streams.min.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    -
group.streams.max.heartbeat.interval.ms | int | 15000 | 1.. | read-only | medium
    -
group.streams.max.size | int | 2147483647 | 1.. | read-only | medium
    -
group.streams.num.standby.replicas | int | 0 | 0.. | read-only | medium
    -
group.streams.max.standby.replicas | int | 2 | 0.. | read-only | medium
    -
group.streams.initial.rebalance.delay.ms | int | 3000 | 0.. | read-only | medium
    -
group.streams.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    -
group.streams.min.assignment.interval.ms | int | 0 | 0.. | read-only | medium
    -
group.streams.max.assignment.interval.ms | int | 15000 | 0.. | read-only | medium
    -
group.share.delivery.count.limit | int | 5 | 2..10 | read-only | medium
    -
group.share.max.delivery.count.limit | int | 10 | 5..25 | read-only | medium
    -
group.share.min.delivery.count.limit | int | 2 | 2..5 | read-only | medium
    -
group.share.record.lock.duration.ms | int | 30000 | 1000..3600000 | read-only | medium
    -
group.share.min.record.lock.duration.ms | int | 15000 | 1000..30000 | read-only | medium
    -
group.share.max.record.lock.duration.ms | int | 60000 | 30000..3600000 | read-only | medium
    -
group.share.partition.max.record.locks | int | 2000 | 100..10000 | read-only | medium
    -
group.share.max.partition.max.record.locks | int | 4000 | 2000..10000 | read-only | medium
    -
group.share.min.partition.max.record.locks | int | 100 | 100..2000 | read-only | medium
    -
share.fetch.purgatory.purge.interval.requests | int | 1000 | any | read-only | medium
    -
group.share.max.share.sessions | int | 2000 | 1.. | read-only | medium
    -
group.share.persister.class.name | string | org.apache.kafka.server.share.persister.DefaultStatePersister | any | read-only | medium internal
    -
share.coordinator.state.topic.num.partitions | int | 50 | 1.. | read-only | high
    -
share.coordinator.state.topic.replication.factor | short | 3 | 1.. | read-only | high
    -
share.coordinator.state.topic.min.isr | short | 2 | 1.. | read-only | high
    -
share.coordinator.state.topic.segment.bytes | int | 104857600 | 1.. | read-only | high
    -
share.coordinator.threads | int | 1 | 1.. | read-only | medium
    -
share.coordinator.snapshot.update.records.per.snapshot | int | 500 | 0..500 | read-only | medium
    -
share.coordinator.load.buffer.size | int | 5242880 | 1.. | read-only | high
    -
share.coordinator.state.topic.compression.codec | int | 0 | any | read-only | high
    -
share.coordinator.append.linger.ms | int | -1 | -1.. | read-only | medium
    -
share.coordinator.write.timeout.ms | int | 5000 | 1.. | read-only | high
    -
share.coordinator.state.topic.prune.interval.ms | int | 300000 | 1.. | read-only | low internal
    -
share.coordinator.cold.partition.snapshot.interval.ms | int | 300000 | 1.. | read-only | low internal
    -
share.coordinator.cached.buffer.max.bytes | int | 1048588 | 524288.. | cluster-wide | medium
    -
"""  # noqa: E501
