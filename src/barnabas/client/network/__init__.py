"""How a client reaches brokers: connections, channels, cluster metadata, older request versions.

Source: Kafka's ``NetworkClient``, ``Metadata``.
"""
