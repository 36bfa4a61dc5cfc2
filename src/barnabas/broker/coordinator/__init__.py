"""Coordinators on partitions of internal topics: shards, loading, the group coordinator.

Source: Kafka's ``CoordinatorRuntime``, ``GroupCoordinatorService``.
"""
