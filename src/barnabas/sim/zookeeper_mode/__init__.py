"""Clusters that ZooKeeper coordinates, in the simulator: brokers over the twin of an ensemble, what breaks
there, and who judges what znodes say.

The clients, most faults and most judges are those of the other mode. What is of this mode alone is here;
:mod:`barnabas.sim.run` plays a seed of it where its plan says so (``--zookeeper``).
"""
