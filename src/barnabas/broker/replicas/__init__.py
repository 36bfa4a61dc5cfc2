"""All replicas of a broker, kept as the committed metadata have them.

Source: Kafka's ``ReplicaManager``, ``AssignmentsManager``.
"""
