"""The pure state machine of a replica: states, elections, replication, membership changes.

Source: Kafka's ``KafkaRaftClient without I/O``.
"""
