"""Nodes that have to do with ZooKeeper, assembled from their parts: brokers, and migrating controllers."""
