"""What ``barnabas reassign`` is made of: plans, throttle, progress.

Source: Kafka's ``kafka-reassign-partitions``.
"""
