"""One replica with its role, and the requests that wait for its watermarks.

Source: Kafka's ``Partition``, ``DelayedProduce``, ``AlterPartitionManager``.
"""
