"""What can be set for one group.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
consumer.session.timeout.ms | int | 45000 | 1.. | cluster-wide | medium
    -
consumer.heartbeat.interval.ms | int | 5000 | 1.. | cluster-wide | medium
    -
consumer.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    -
share.session.timeout.ms | int | 45000 | 1.. | cluster-wide | medium
    -
share.heartbeat.interval.ms | int | 5000 | 1.. | cluster-wide | medium
    -
share.record.lock.duration.ms | int | 30000 | 1000.. | cluster-wide | medium
    -
share.delivery.count.limit | int | 5 | 2.. | cluster-wide | medium
    -
share.partition.max.record.locks | int | 2000 | 100.. | cluster-wide | medium
    -
share.auto.offset.reset | string | latest | any | cluster-wide | medium
    -
share.isolation.level | string | read_uncommitted | read_committed/read_uncommitted | cluster-wide | medium
    -
share.renew.acknowledge.enable | boolean | true | any | cluster-wide | medium
    -
share.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    -
streams.session.timeout.ms | int | 45000 | 1.. | cluster-wide | medium
    -
streams.heartbeat.interval.ms | int | 5000 | 1.. | cluster-wide | medium
    -
streams.num.standby.replicas | int | 0 | 0.. | cluster-wide | medium
    -
streams.initial.rebalance.delay.ms | int | 3000 | 0.. | cluster-wide | medium
    -
streams.assignment.interval.ms | int | 1000 | 0.. | cluster-wide | medium
    -
"""
