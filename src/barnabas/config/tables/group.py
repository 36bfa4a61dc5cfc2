"""The keys of one group.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
consumer.session.timeout.ms | int | 45000 | 1.. | cluster-wide | medium
    A member of a consumer group that was silent for this long is removed.
consumer.heartbeat.interval.ms | int | 5000 | 1.. | cluster-wide | medium
    How often a member of a consumer group sends heartbeats.
consumer.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    The shortest time between two assignments of a consumer group.
errors.deadletterqueue.topic.name | string | "" | any | cluster-wide | medium
    Topic for undeliverable records of a share group.
errors.deadletterqueue.copy.record.enable | boolean | false | any | cluster-wide | medium
    Whether an undeliverable record is copied, or its headers alone are.
consumer.assignor.offload.enable | boolean | true | any | cluster-wide | medium internal
    Whether assignments are made in the background; here the coordinator makes them.
share.assignor.offload.enable | boolean | true | any | cluster-wide | medium internal
    Whether assignments are made in the background; here the coordinator makes them.
streams.assignor.offload.enable | boolean | true | any | cluster-wide | medium internal
    Whether assignments are made in the background; here the coordinator makes them.
share.session.timeout.ms | int | 45000 | 1.. | cluster-wide | medium
    A member of a share group that was silent for this long is removed.
share.heartbeat.interval.ms | int | 5000 | 1.. | cluster-wide | medium
    How often a member of a share group sends heartbeats.
share.record.lock.duration.ms | int | 30000 | 1000.. | cluster-wide | medium
    How long a member holds a record.
share.delivery.count.limit | int | 5 | 2.. | cluster-wide | medium
    How often a record is delivered at most.
share.partition.max.record.locks | int | 2000 | 100.. | cluster-wide | medium
    Records of one partition that may be held at a time.
share.auto.offset.reset | string | latest | offset reset | cluster-wide | medium
    Where a share group without offsets begins. Partitions that a topic of the group grows by begin at 0.
share.isolation.level | string | read_uncommitted | read_committed/read_uncommitted | cluster-wide | medium
    Whether records of open and aborted transactions are delivered.
share.renew.acknowledge.enable | boolean | true | any | cluster-wide | medium
    Whether members may prolong their hold of a record.
share.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    The shortest time between two assignments of a share group.
streams.session.timeout.ms | int | 45000 | 1.. | cluster-wide | medium
    A member of a streams group that was silent for this long is removed.
streams.heartbeat.interval.ms | int | 5000 | 1.. | cluster-wide | medium
    How often a member of a streams group sends heartbeats.
streams.assignor.name | string | null | any | cluster-wide | medium
    Assignor of a streams group; the broker's first one where it is not set.
streams.rack.aware.assignment.tags | list | "" | list | cluster-wide | low
    Tags of clients over which standby copies are spread.
streams.acceptable.recovery.lag | long | 10000 | 0.. | cluster-wide | medium internal
    How far behind a task may be and still count as caught up.
streams.num.warmup.replicas | int | 2 | 0.. | cluster-wide | medium internal
    Warm-up copies of a task.
streams.task.offset.interval.ms | int | 60000 | 1.. | cluster-wide | medium internal
    How often members say how far their tasks are.
streams.num.standby.replicas | int | 0 | 0.. | cluster-wide | medium
    Standby copies of a task.
streams.initial.rebalance.delay.ms | int | 3000 | 0.. | cluster-wide | medium
    How long a new group waits for more members.
streams.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    The shortest time between two assignments of a streams group.
"""
