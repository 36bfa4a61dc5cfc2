"""What every checker is."""

from __future__ import annotations

from barnabas.sim.cluster import SimCluster, SimNode


class Checker:
    """An outside judge. Both methods raise :class:`barnabas.sim.history.Violation`."""

    EVERY = 1
    """It is called after so many events; more than 1 where looking is dear and nothing passes by."""
    LOOKS_AT_IMAGE = False
    """Whether only a node's metadata image can tell it anything: called when that has moved."""
    LOOKS_AT_ELECTIONS = False
    """Whether only the state of a node's quorum replica and its vote can tell it anything: called when
    one of them is another, and until the vote is on the disk."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        """An event ran on `node`, which is up. Not to be defined by one that looks only at the end."""
        raise NotImplementedError

    def finish(self, cluster: SimCluster) -> None:
        """Everything has healed: the last look at everything."""
