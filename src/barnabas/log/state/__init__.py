"""The state of a log beside its segments: its producers, and where leader epochs begin.

Source: Kafka's ``ProducerStateManager``, ``LeaderEpochFileCache``.
"""
