"""What can be set for a user, a client id or an address, and replication throttles of a broker.

Form of the lines: `barnabas.config.definition`.
"""

CLIENT = """
producer_byte_rate | long | 9223372036854775807 | any | cluster-wide | medium
    -
consumer_byte_rate | long | 9223372036854775807 | any | cluster-wide | medium
    -
request_percentage | double | 2.147483647E9 | any | cluster-wide | medium
    -
controller_mutation_rate | double | 2.147483647E9 | any | cluster-wide | medium
    -
"""

ADDRESS = """
connection_creation_rate | int | 2147483647 | 0.. | cluster-wide | medium
    -
"""

BROKER = """
leader.replication.throttled.rate | long | 9223372036854775807 | 0.. | cluster-wide | medium
    -
follower.replication.throttled.rate | long | 9223372036854775807 | 0.. | cluster-wide | medium
    -
replica.alter.log.dirs.io.max.bytes.per.second | long | 9223372036854775807 | 0.. | cluster-wide | medium
    -
"""
