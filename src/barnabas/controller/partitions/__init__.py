"""Decisions about partitions: leader, ISR, ELR, reassignment, placement, directories.

Source: Kafka's ``ReplicationControlManager``.
"""
