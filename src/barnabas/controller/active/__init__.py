"""The active controller and its services: liveness, fencing, leader balance, unclean recovery.

Source: Kafka's ``QuorumController``.
"""
