"""Chooses the coordination of a node's cluster by the node's file: a quorum, or ZooKeeper.

The composition root makes this choice. Only this module and `host.main` go through the front door
of ZooKeeper mode, and only if the file has a key of that mode.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.config.coordination import QUORUM, ClusterCoordination

ZOOKEEPER_PREFIX = "zookeeper."


def coordination_of(properties: Mapping[str, str]) -> ClusterCoordination:
    """The coordination that `properties` name. Raises ``ConfigError``."""
    if not any(name.startswith(ZOOKEEPER_PREFIX) for name in properties):
        return QUORUM
    from barnabas.zookeeper.door import coordination_of as zookeeper_coordination_of

    return zookeeper_coordination_of(properties)
