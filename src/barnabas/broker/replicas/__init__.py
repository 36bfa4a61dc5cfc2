"""All replicas of a broker, kept in the state that the committed metadata say.

Source: Kafka's ``ReplicaManager``, ``AssignmentsManager``.
"""
