"""What the controller of ZooKeeper mode tells of itself: the states of partitions and replicas with their
reasons, and the steps in which topics are created and deleted.
"""
