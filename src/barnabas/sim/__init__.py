"""A simulated world for whole nodes: virtual time, network and disks, all from one seed.

:mod:`barnabas.sim.world.world` keeps time and chance, :mod:`barnabas.sim.world.process` gives a node its
ports, :mod:`barnabas.sim.world.network` and :mod:`barnabas.sim.world.disk` misbehave as real ones do,
:mod:`barnabas.sim.cluster` builds nodes on them, :mod:`barnabas.sim.run` plays a seed.

For experiments of your own (docs/simulator.md): a `World`, a `SimCluster` of a `Topology`, and a `History`
of what clients saw, which raises `Violation`.
"""

from barnabas.sim.cluster import SimCluster, SimNode, Topology
from barnabas.sim.history import History, Promise, Violation
from barnabas.sim.world.world import World

__all__ = ["History", "Promise", "SimCluster", "SimNode", "Topology", "Violation", "World"]
