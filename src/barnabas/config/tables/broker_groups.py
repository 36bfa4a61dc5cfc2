"""Group coordinators: offsets, classic, consumer, share and streams groups.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
group.coordinator.rebalance.protocols | list | classic,consumer,streams | nonempty list of consumer/classic/share/streams | read-only | medium
    The group protocols on offer; classic must be among them.
group.coordinator.threads | int | 4 | 1.. | read-only | high
    Accepted for Kafka's sake: coordinators share the node's one thread here.
group.coordinator.background.threads | int | 2 | 1.. | read-only | high
    Accepted for Kafka's sake: assignment runs on the node's one thread here.
group.coordinator.append.linger.ms | int | -1 | -1.. | read-only | medium
    Accepted for Kafka's sake: a coordinator writes at the end of each turn what was decided in it.
offsets.commit.timeout.ms | int | 5000 | 1.. | read-only | high
    How long a commit may wait for its replicas.
offsets.load.buffer.size | int | 5242880 | 1.. | read-only | high
    How much of the offsets topic is read at once while loading.
offsets.topic.replication.factor | short | 3 | 1.. | read-only | high
    Replicas of the offsets topic.
offsets.topic.min.isr | int | 0 | 0.. | read-only | high
    The offsets topic's min.insync.replicas when it is created; 0: the default of all topics. Kafka has no such key.
offsets.topic.num.partitions | int | 50 | 1.. | read-only | high
    Partitions of the offsets topic; must not change.
offsets.topic.segment.bytes | int | 104857600 | 1.. | read-only | high
    Segment size of the offsets topic.
offsets.topic.compression.codec | int | 0 | any | read-only | high
    Codec with which coordinators write to the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
group.coordinator.cached.buffer.max.bytes | int | 1048588 | 524288.. | cluster-wide | medium
    Accepted for Kafka's sake: coordinators keep no buffers.
offset.metadata.max.bytes | int | 4096 | any | read-only | high
    How long the note of a committed offset may be.
offsets.retention.minutes | int | 10080 | 1.. | read-only | high
    How long offsets outlive the last member of their group.
offsets.retention.check.interval.ms | long | 600000 | 1.. | read-only | high
    How often expired offsets are looked for.
group.min.session.timeout.ms | int | 6000 | any | read-only | medium
    The shortest session time-out that a classic member may ask for.
group.max.session.timeout.ms | int | 1800000 | any | read-only | medium
    The longest session time-out that a classic member may ask for.
group.initial.rebalance.delay.ms | int | 3000 | any | read-only | medium
    How long a new classic group waits for more members.
group.max.size | int | 2147483647 | 1.. | read-only | medium
    How many members a classic group may have.
group.consumer.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    A member of a consumer group that was silent for this long is removed.
group.consumer.min.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    The shortest session time-out that a consumer group may set.
group.consumer.max.session.timeout.ms | int | 60000 | 1.. | read-only | medium
    The longest session time-out that a consumer group may set.
group.consumer.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    How often a member of a consumer group sends heartbeats.
group.consumer.min.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    The shortest heartbeat interval that a consumer group may set.
group.consumer.max.heartbeat.interval.ms | int | 15000 | 1.. | read-only | medium
    The longest heartbeat interval that a consumer group may set.
group.consumer.max.size | int | 2147483647 | 1.. | read-only | medium
    How many members a consumer group may have.
group.consumer.assignors | list | uniform,range | nonempty list | read-only | medium
    Assignors of consumer groups; the first is the default.
group.consumer.migration.policy | string | bidirectional | ~DISABLED/DOWNGRADE/UPGRADE/BIDIRECTIONAL | read-only | medium
    Whether groups may move between the classic and the consumer protocol.
group.consumer.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    The shortest time between two assignments of a consumer group.
group.consumer.min.assignment.interval.ms | int | 0 | 0.. | read-only | medium
    The shortest assignment interval that a consumer group may set.
group.consumer.max.assignment.interval.ms | int | 15000 | 0.. | read-only | medium
    The longest assignment interval that a consumer group may set.
group.consumer.regex.refresh.interval.ms | int | 600000 | 10000.. | read-only | medium internal
    How often subscribed patterns are matched again.
group.consumer.assignor.offload.enable | boolean | true | any | cluster-wide | medium internal
    Whether assignments are made in the background; here the coordinator makes them.
group.share.assignor.offload.enable | boolean | true | any | cluster-wide | medium internal
    Whether assignments are made in the background; here the coordinator makes them.
group.streams.assignor.offload.enable | boolean | true | any | cluster-wide | medium internal
    Whether assignments are made in the background; here the coordinator makes them.
group.share.dlq.manager.class.name | string | org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager | any | read-only | medium internal
    Class that writes undeliverable records.
errors.deadletterqueue.auto.create.topics.enable | boolean | false | any | cluster-wide | medium
    Whether topics for undeliverable records of share groups are made.
errors.deadletterqueue.topic.name.prefix | string | dlq. | any | cluster-wide | medium
    How names of topics for undeliverable records begin.
group.share.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    A member of a share group that was silent for this long is removed.
group.share.min.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    The shortest session time-out that a share group may set.
group.share.max.session.timeout.ms | int | 60000 | 1.. | read-only | medium
    The longest session time-out that a share group may set.
group.share.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    How often a member of a share group sends heartbeats.
group.share.min.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    The shortest heartbeat interval that a share group may set.
group.share.max.heartbeat.interval.ms | int | 15000 | 1.. | read-only | medium
    The longest heartbeat interval that a share group may set.
group.share.max.size | int | 200 | 1..1000 | read-only | medium
    How many members a share group may have.
group.share.assignors | list | simple | nonempty list | read-only | medium
    Assignors of share groups.
group.share.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    The shortest time between two assignments of a share group.
group.share.min.assignment.interval.ms | int | 0 | 0.. | read-only | medium
    The shortest assignment interval that a share group may set.
group.share.max.assignment.interval.ms | int | 15000 | 0.. | read-only | medium
    The longest assignment interval that a share group may set.
group.share.initialize.retry.interval.ms | int | 30000 | 1.. | read-only | low internal
    How often the state of a share partition is tried to be set up.
group.streams.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    A member of a streams group that was silent for this long is removed.
group.streams.min.session.timeout.ms | int | 45000 | 1.. | read-only | medium
    The shortest session time-out that a streams group may set.
group.streams.max.session.timeout.ms | int | 60000 | 1.. | read-only | medium
    The longest session time-out that a streams group may set.
group.streams.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    How often a member of a streams group sends heartbeats.
group.streams.min.heartbeat.interval.ms | int | 5000 | 1.. | read-only | medium
    The shortest heartbeat interval that a streams group may set.
group.streams.max.heartbeat.interval.ms | int | 15000 | 1.. | read-only | medium
    The longest heartbeat interval that a streams group may set.
group.streams.max.size | int | 2147483647 | 1.. | read-only | medium
    How many members a streams group may have.
group.streams.assignors | list | sticky | nonempty list | read-only | medium
    Assignors of streams groups; the first is the default.
group.streams.rack.aware.assignment.tags | list | "" | list | read-only | low
    Tags of clients over which standby copies are spread.
group.streams.topology.description.plugin.class | class | null | any | read-only | medium
    Class that keeps descriptions of topologies.
group.streams.acceptable.recovery.lag | long | 10000 | 0.. | read-only | medium internal
    How far behind a task may be and still count as caught up.
group.streams.num.warmup.replicas | int | 2 | 0.. | read-only | medium internal
    Warm-up copies of a task.
group.streams.max.warmup.replicas | int | 20 | 0.. | read-only | medium internal
    The most warm-up copies that a streams group may set.
group.streams.task.offset.interval.ms | int | 60000 | 1.. | read-only | medium internal
    How often members say how far their tasks are.
group.streams.min.task.offset.interval.ms | int | 15000 | 1.. | read-only | medium internal
    The shortest interval for that which a streams group may set.
group.streams.num.standby.replicas | int | 0 | 0.. | read-only | medium
    Standby copies of a streams task.
group.streams.max.standby.replicas | int | 2 | 0.. | read-only | medium
    The most standby copies that a streams group may set.
group.streams.initial.rebalance.delay.ms | int | 3000 | 0.. | read-only | medium
    How long a new streams group waits for more members.
group.streams.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    The shortest time between two assignments of a streams group.
group.streams.min.assignment.interval.ms | int | 0 | 0.. | read-only | medium
    The shortest assignment interval that a streams group may set.
group.streams.max.assignment.interval.ms | int | 15000 | 0.. | read-only | medium
    The longest assignment interval that a streams group may set.
group.share.delivery.count.limit | int | 5 | 2..10 | read-only | medium
    How often a record of a share group is delivered at most.
group.share.max.delivery.count.limit | int | 10 | 5..25 | read-only | medium
    The most that a share group may set as its delivery limit.
group.share.min.delivery.count.limit | int | 2 | 2..5 | read-only | medium
    The least that a share group may set as its delivery limit.
group.share.record.lock.duration.ms | int | 30000 | 1000..3600000 | read-only | medium
    How long a member of a share group holds a record.
group.share.min.record.lock.duration.ms | int | 15000 | 1000..30000 | read-only | medium
    The shortest hold that a share group may set.
group.share.max.record.lock.duration.ms | int | 60000 | 30000..3600000 | read-only | medium
    The longest hold that a share group may set.
group.share.partition.max.record.locks | int | 2000 | 100..10000 | read-only | medium
    Records of one share partition that may be held at a time.
group.share.max.partition.max.record.locks | int | 4000 | 2000..10000 | read-only | medium
    The most that a share group may set as its number of held records.
group.share.min.partition.max.record.locks | int | 100 | 100..2000 | read-only | medium
    The least that a share group may set as its number of held records.
share.fetch.purgatory.purge.interval.requests | int | 1000 | any | read-only | medium
    Accepted for Kafka's sake: parked share fetches are removed at once.
group.share.max.share.sessions | int | 2000 | 1.. | read-only | medium
    How many share sessions a broker keeps.
group.share.persister.class.name | string | org.apache.kafka.server.share.persister.DefaultStatePersister | any | read-only | medium internal
    Where the state of share groups is kept.
share.coordinator.state.topic.num.partitions | int | 50 | 1.. | read-only | high
    Partitions of the share state topic.
share.coordinator.state.topic.replication.factor | short | 3 | 1.. | read-only | high
    Replicas of the share state topic.
share.coordinator.state.topic.min.isr | short | 2 | 1.. | read-only | high
    Replicas of the share state topic that must have a write.
share.coordinator.state.topic.segment.bytes | int | 104857600 | 1.. | read-only | high
    Segment size of the share state topic.
share.coordinator.threads | int | 1 | 1.. | read-only | medium
    Accepted for Kafka's sake: coordinators share the node's one thread here.
share.coordinator.snapshot.update.records.per.snapshot | int | 500 | 0..500 | read-only | medium
    Updates of a share partition between two snapshots.
share.coordinator.load.buffer.size | int | 5242880 | 1.. | read-only | high
    How much of the share state topic is read at once while loading.
share.coordinator.state.topic.compression.codec | int | 0 | any | read-only | high
    Codec number of the share state topic.
share.coordinator.append.linger.ms | int | -1 | -1.. | read-only | medium
    How long a share coordinator gathers records; -1 lets it choose.
share.coordinator.write.timeout.ms | int | 5000 | 1.. | read-only | high
    How long a write of share state may wait for its replicas.
share.coordinator.state.topic.prune.interval.ms | int | 300000 | 1.. | read-only | low internal
    How often share state that is not needed any more is deleted.
share.coordinator.cold.partition.snapshot.interval.ms | int | 300000 | 1.. | read-only | low internal
    How often idle share partitions are written again.
share.coordinator.cached.buffer.max.bytes | int | 1048588 | 524288.. | cluster-wide | medium
    The largest buffer that a share coordinator keeps.
"""  # noqa: E501
