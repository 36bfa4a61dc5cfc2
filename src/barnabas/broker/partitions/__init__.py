"""Replicas with their roles, and the requests that wait for their watermarks.

Source: Kafka's ``Partition``, ``DelayedProduce``, ``AlterPartitionManager``.
"""
