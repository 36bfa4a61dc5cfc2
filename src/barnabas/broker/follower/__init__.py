"""Follows leaders of other brokers: fetchers, their plan, throttle, OFFSET_OUT_OF_RANGE.

Source: Kafka's ``ReplicaFetcherManager``, ``ReplicaFetcherThread``.
"""
