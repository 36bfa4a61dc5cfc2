"""Replication, elections, registration and heartbeats.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
num.replica.alter.log.dirs.threads | int | null | any | read-only | high
    -
controlled.shutdown.enable | boolean | true | any | read-only | medium
    -
initial.broker.registration.timeout.ms | int | 60000 | any | read-only | medium
    -
broker.heartbeat.interval.ms | int | 2000 | any | read-only | medium
    -
broker.session.timeout.ms | int | 9000 | any | read-only | medium
    -
replica.lag.time.max.ms | long | 30000 | any | read-only | high
    -
replica.socket.timeout.ms | int | 30000 | any | read-only | high
    -
replica.socket.receive.buffer.bytes | int | 65536 | any | read-only | high
    -
replica.fetch.max.bytes | int | 1048576 | 0.. | read-only | medium
    -
replica.fetch.wait.max.ms | int | 500 | any | read-only | high
    -
replica.fetch.backoff.ms | int | 1000 | 0.. | read-only | medium
    -
replica.fetch.min.bytes | int | 1 | any | read-only | high
    -
replica.fetch.response.max.bytes | int | 10485760 | 0.. | read-only | medium
    -
num.replica.fetchers | int | 1 | 1.. | cluster-wide | high
    -
replica.high.watermark.checkpoint.interval.ms | long | 5000 | any | read-only | high
    -
fetch.purgatory.purge.interval.requests | int | 1000 | any | read-only | medium
    -
producer.purgatory.purge.interval.requests | int | 1000 | any | read-only | medium
    -
delete.records.purgatory.purge.interval.requests | int | 1 | any | read-only | medium
    -
auto.leader.rebalance.enable | boolean | true | any | read-only | high
    -
leader.imbalance.check.interval.seconds | long | 300 | 1.. | read-only | high
    -
unclean.leader.election.enable | boolean | false | any | cluster-wide | high
    -
security.inter.broker.protocol | string | PLAINTEXT | PLAINTEXT/SSL/SASL_PLAINTEXT/SASL_SSL | read-only | medium
    -
inter.broker.listener.name | string | null | any | read-only | medium
    -
replica.selector.class | string | null | any | read-only | medium
    -
"""  # noqa: E501
