"""The keys of a user, a client id or an address, and replication throttles of a broker.

Form of the lines: `barnabas.config.definition`.
"""

CLIENT = """
producer_byte_rate | long | 9223372036854775807 | any | cluster-wide | medium
    Bytes per second that a client may write to one broker.
consumer_byte_rate | long | 9223372036854775807 | any | cluster-wide | medium
    Bytes per second that a client may read from one broker.
request_percentage | double | 2.147483647E9 | any | cluster-wide | medium
    Share of a broker's time that a client may use, in percent of one thread.
controller_mutation_rate | double | 2.147483647E9 | any | cluster-wide | medium
    Partitions per second that a client may create or delete.
"""

ADDRESS = """
connection_creation_rate | int | 2147483647 | 0.. | cluster-wide | medium
    New connections per second from one address.
"""

BROKER = """
leader.replication.throttled.rate | long | 9223372036854775807 | 0.. | cluster-wide | medium
    Bytes per second that throttled leaders may send to followers.
follower.replication.throttled.rate | long | 9223372036854775807 | 0.. | cluster-wide | medium
    Bytes per second that throttled followers may fetch.
replica.alter.log.dirs.io.max.bytes.per.second | long | 9223372036854775807 | 0.. | cluster-wide | medium
    Bytes per second that moves between directories may copy.
"""
