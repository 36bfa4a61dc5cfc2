"""A simulated world for whole nodes: virtual time, network and disks, all from one seed.

:mod:`barnabas.sim.world` keeps time and chance, :mod:`barnabas.sim.process` gives a node its ports,
:mod:`barnabas.sim.network` and :mod:`barnabas.sim.disk` misbehave as real ones do,
:mod:`barnabas.sim.cluster` builds nodes on them, :mod:`barnabas.sim.run` plays a seed.
"""
