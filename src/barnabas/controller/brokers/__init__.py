"""Decisions about brokers and controllers: registration, heartbeat, controlled shutdown.

Source: Kafka's ``ClusterControlManager``, ``BrokerHeartbeatManager``.
"""
