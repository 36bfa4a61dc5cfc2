"""What a log remembers beside its segments: its producers, and where leader epochs begin.

Source: Kafka's ``ProducerStateManager``, ``LeaderEpochFileCache``.
"""
