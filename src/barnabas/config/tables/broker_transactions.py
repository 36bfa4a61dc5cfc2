"""The transaction coordinator and producer ids.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
transaction.state.log.min.isr | int | 2 | 1.. | read-only | high
    min.insync.replicas of the transaction topic.
transaction.state.log.load.buffer.size | int | 5242880 | 1.. | read-only | high
    How many bytes of the transaction topic are read at once while it is loaded.
transaction.state.log.replication.factor | short | 3 | 1.. | read-only | high
    Replication factor of the transaction topic.
transaction.state.log.num.partitions | int | 50 | 1.. | read-only | high
    Partitions of the transaction topic; must not change.
transaction.state.log.segment.bytes | int | 104857600 | 1.. | read-only | high
    Segment size of the transaction topic in bytes.
transaction.partition.verification.enable | boolean | true | any | cluster-wide | low
    Whether a leader verifies that a partition belongs to the transaction before it appends a batch.
producer.id.expiration.ms | int | 86400000 | 1.. | cluster-wide | low
    How long a partition remembers a producer that writes nothing.
producer.id.expiration.check.interval.ms | int | 600000 | 1.. | read-only | low internal
    How often expired producers are removed.
transactional.id.expiration.ms | int | 604800000 | 1.. | read-only | high
    How long a transactional id is kept without use.
transaction.max.timeout.ms | int | 900000 | 1.. | read-only | high
    The longest time-out that a transaction may ask for.
transaction.abort.timed.out.transaction.cleanup.interval.ms | int | 10000 | 1.. | read-only | low
    How often transactions that timed out are looked for.
transaction.remove.expired.transaction.cleanup.interval.ms | int | 3600000 | 1.. | read-only | low
    How often expired transactional ids are looked for.
transaction.two.phase.commit.enable | boolean | false | any | read-only | low
    Whether transactions without a time-out are allowed, and InitProducerId 6 is served (KIP-939).
add.partitions.to.txn.retry.backoff.max.ms | int | 100 | 0.. | read-only | high
    How long a write waits until its producer's previous transaction has ended.
add.partitions.to.txn.retry.backoff.ms | int | 20 | 1.. | read-only | high
    The pause between two attempts in that time.
"""
