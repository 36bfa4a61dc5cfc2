"""Follows leaders on other brokers: fetchers, their plan, the throttle, OFFSET_OUT_OF_RANGE.

Source: Kafka's ``ReplicaFetcherManager``, ``ReplicaFetcherThread``.
"""
