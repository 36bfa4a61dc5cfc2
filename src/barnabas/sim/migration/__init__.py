"""Clusters that leave ZooKeeper while they serve (KIP-866), in the simulator: brokers in ZooKeeper mode,
controllers of a quorum that join later, an operator who takes the steps of the migration and of the way back
at drawn times, what breaks meanwhile, and who judges.

What runs is the product's code: `zookeeper.node.migrating_controller`, `zookeeper.node.quorum_enrolment`, and
for the way back `zookeeper.migration.release`. :mod:`barnabas.sim.run` plays a seed of it where its plan says
so (``--migration``).
"""
