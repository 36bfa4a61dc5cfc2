"""The contract of every checker."""

from __future__ import annotations

from barnabas.sim.cluster import SimCluster, SimNode


class Checker:
    """An outside judge. Both methods raise :class:`barnabas.sim.history.Violation`."""

    EVENTS_BETWEEN_CHECKS = 1
    """It is called after so many events; more than 1 where looking is dear and nothing passes by."""
    LOOKS_AT_IMAGE = False
    """Whether only a node's metadata image can tell it anything: called when that has moved."""
    LOOKS_AT_QUORUM = False
    """Whether only a node's quorum replica can tell it anything, by its state, vote, log's end, what of it is
    synced, or high watermark: called when one of them is another, and while it saves something."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        """An event ran on `node`, which is up. Not to be defined by one that looks only at the end."""
        raise NotImplementedError

    def finish(self, cluster: SimCluster) -> None:
        """Everything has healed: the last look at everything."""
