"""The transaction coordinator and producer ids.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
transaction.state.log.min.isr | int | 2 | 1.. | read-only | high
    -
transaction.state.log.load.buffer.size | int | 5242880 | 1.. | read-only | high
    -
transaction.state.log.replication.factor | short | 3 | 1.. | read-only | high
    -
transaction.state.log.num.partitions | int | 50 | 1.. | read-only | high
    -
transaction.state.log.segment.bytes | int | 104857600 | 1.. | read-only | high
    -
transaction.partition.verification.enable | boolean | true | any | cluster-wide | low
    -
producer.id.expiration.ms | int | 86400000 | 1.. | cluster-wide | low
    -
producer.id.expiration.check.interval.ms | int | 600000 | 1.. | read-only | low internal
    -
transactional.id.expiration.ms | int | 604800000 | 1.. | read-only | high
    -
transaction.max.timeout.ms | int | 900000 | 1.. | read-only | high
    -
transaction.abort.timed.out.transaction.cleanup.interval.ms | int | 10000 | 1.. | read-only | low
    -
transaction.remove.expired.transaction.cleanup.interval.ms | int | 3600000 | 1.. | read-only | low
    -
transaction.two.phase.commit.enable | boolean | false | any | read-only | low
    -
add.partitions.to.txn.retry.backoff.max.ms | int | 100 | 0.. | read-only | high
    -
add.partitions.to.txn.retry.backoff.ms | int | 20 | 1.. | read-only | high
    -
"""
