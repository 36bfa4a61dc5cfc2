"""The ports of a node that uses ZooKeeper: those of every node, and sessions with an ensemble."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.host.ports import HostPorts
from barnabas.zookeeper.session import MissingLibrary

if TYPE_CHECKING:
    from barnabas.zookeeper.session import ZooKeeper


class ZookeeperPorts(HostPorts):
    """`HostPorts` with ``zookeeper.session.HasZooKeeper``."""

    _zookeeper: ZooKeeper | None = None

    @property
    def zookeeper(self) -> ZooKeeper:
        """Created on first use, since its library is an extra. Raises ``MissingLibrary``."""
        if self._zookeeper is None:
            try:
                from barnabas.host.zookeeper.sessions import HostZooKeeper
            except ImportError as error:
                if error.name is None or error.name.partition(".")[0] != "kazoo":
                    raise
                raise MissingLibrary(
                    "zookeeper.connect needs the package kazoo: pip install 'barnabas[zookeeper]'"
                ) from error
            self._zookeeper = HostZooKeeper(self.loop, self.log, lambda: self.secrets)
        return self._zookeeper
