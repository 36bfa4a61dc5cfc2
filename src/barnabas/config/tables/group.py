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
share.auto.offset.reset | string | latest | any | cluster-wide | medium
    Where a share group without offsets begins.
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
streams.num.standby.replicas | int | 0 | 0.. | cluster-wide | medium
    Standby copies of a task.
streams.initial.rebalance.delay.ms | int | 3000 | 0.. | cluster-wide | medium
    How long a new group waits for more members.
streams.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    The shortest time between two assignments of a streams group.
"""
