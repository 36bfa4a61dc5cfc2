"""Decisions about topics: create, grow, delete.

Source: Kafka's ``ReplicationControlManager``.
"""
