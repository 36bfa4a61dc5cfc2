"""The consumer: fetching, positions, group membership, assignors.

Source: Kafka's ``KafkaConsumer``, ``Fetcher``, ``ConsumerCoordinator``.
"""
