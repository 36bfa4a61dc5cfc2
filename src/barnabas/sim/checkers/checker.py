"""What every checker is."""

from __future__ import annotations

from barnabas.sim.cluster import SimCluster, SimNode


class Checker:
    """An outside judge. Both methods raise :class:`barnabas.sim.history.Violation`."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        """An event ran on `node`, which is up."""
        raise NotImplementedError

    def finish(self, cluster: SimCluster) -> None:
        """Everything has healed: the last look at everything."""
