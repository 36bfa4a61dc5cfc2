"""Reports of the controller in ZooKeeper mode: states of partitions and replicas with their reasons, and the
steps of creating and deleting topics.
"""
