"""What a log remembers beside its segments: producers.

Source: Kafka's ``ProducerStateManager)``, ``leader epochs (LeaderEpochFileCache``.
"""
