"""Replication, elections, registration and heartbeats.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
num.replica.alter.log.dirs.threads | int | null | any | read-only | high
    Accepted for Kafka's sake: moves between directories are copied in slices beside other work.
controlled.shutdown.enable | boolean | true | any | read-only | medium
    Whether a stopping broker first hands its leadership over.
initial.broker.registration.timeout.ms | int | 60000 | any | read-only | medium
    How long a broker tries to register before it gives up.
broker.heartbeat.interval.ms | int | 2000 | any | read-only | medium
    How often a broker tells the controller that it is alive.
broker.session.timeout.ms | int | 9000 | any | read-only | medium
    A broker that was silent for this long is fenced.
replica.lag.time.max.ms | long | 30000 | any | read-only | high
    A follower that has not caught up for this long leaves the ISR.
replica.socket.timeout.ms | int | 30000 | any | read-only | high
    How long a follower waits for the answer to a fetch.
replica.socket.receive.buffer.bytes | int | 65536 | any | read-only | high
    Accepted for Kafka's sake: the system sizes a follower's receive buffers.
replica.fetch.max.bytes | int | 1048576 | 0.. | read-only | medium
    How much a follower asks for per partition.
replica.fetch.wait.max.ms | int | 500 | any | read-only | high
    How long a leader may hold a follower's fetch that finds nothing new.
replica.fetch.backoff.ms | int | 1000 | 0.. | read-only | medium
    How long a follower rests after an error.
replica.fetch.min.bytes | int | 1 | any | read-only | high
    How much there must be before a follower's fetch is answered early.
replica.fetch.response.max.bytes | int | 10485760 | 0.. | read-only | medium
    The most that one answer to a follower holds.
num.replica.fetchers | int | 1 | 1.. | cluster-wide | high
    Connections over which a broker follows one leader.
replica.high.watermark.checkpoint.interval.ms | long | 5000 | any | read-only | high
    How often high watermarks are written to disk.
fetch.purgatory.purge.interval.requests | int | 1000 | any | read-only | medium
    Accepted for Kafka's sake: parked fetches are removed at once.
producer.purgatory.purge.interval.requests | int | 1000 | any | read-only | medium
    Accepted for Kafka's sake: parked produces are removed at once.
delete.records.purgatory.purge.interval.requests | int | 1 | any | read-only | medium
    Accepted for Kafka's sake: nothing is left to purge.
auto.leader.rebalance.enable | boolean | true | any | read-only | high
    Whether leadership returns to preferred replicas by itself.
leader.imbalance.check.interval.seconds | long | 300 | 1.. | read-only | high
    How often preferred leaders are looked for.
leader.imbalance.per.broker.percentage | int | 10 | 0.. | read-only | high
    A broker that lacks more percent of the leaderships it is preferred for gets them back.
unclean.leader.election.enable | boolean | false | any | cluster-wide | high
    Whether a replica outside the ISR may lead when no other can; loses data.
unclean.recovery.strategy | string | null | ~none/balanced/aggressive | cluster-wide | high
    Which replica leads where none in sync is left; unset, unclean.leader.election.enable decides.
security.inter.broker.protocol | string | PLAINTEXT | PLAINTEXT/SSL/SASL_PLAINTEXT/SASL_SSL | read-only | medium
    Protocol between brokers where inter.broker.listener.name is not given.
inter.broker.listener.name | string | null | any | read-only | medium
    Name of the listener on which brokers reach each other.
replica.selector.class | string | null | org.apache.kafka.common.replica.LeaderSelector/org.apache.kafka.common.replica.RackAwareReplicaSelector | read-only | medium
    Which replica a consumer reads from: the leader (default), or one in the consumer's client.rack (KIP-392).
"""  # noqa: E501
