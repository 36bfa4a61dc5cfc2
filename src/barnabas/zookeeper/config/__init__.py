"""Configuration of nodes that have to do with ZooKeeper: the keys, and their part in a node's settings."""
