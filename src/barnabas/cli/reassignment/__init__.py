"""The parts of ``barnabas reassign``: plans, throttle, progress.

Source: Kafka's ``kafka-reassign-partitions``.
"""
