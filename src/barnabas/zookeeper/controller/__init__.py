"""The controller where ZooKeeper coordinates the cluster: the same decisions over another journal.

Election, journal, what brokers are ordered, deletion of topics, and what watches say that others changed.
"""
