"""One vote per voter and quorum epoch, also across a crash: what makes invariant 1 hold.

A vote counts once it may have been spoken of, that is when nothing waits for it to become durable.
"""

from __future__ import annotations

from barnabas.raft.core.election_state import NO_LEADER, ElectionState
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class OneVotePerEpoch(Checker):
    LOOKS_AT_QUORUM = True

    def __init__(self) -> None:
        self._votes: dict[tuple[int, int], int] = {}
        """(node, quorum epoch) → the candidate."""
        self._latest: dict[int, int] = {}
        """Node → the last epoch in which it voted."""
        self._seen: dict[int, object] = {}
        self._losses: dict[int, int] = {}
        """Node → how often it has lost its metadata directory for good, and with it who it is."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        assert node.node is not None
        quorum = node.node.quorum
        saved = quorum.machine.saved
        if saved is self._seen.get(node.id) or quorum.is_saving:
            return
        losses = node.machine.disk.totals["metadata_logs_lost"]
        if losses != self._losses.get(node.id, 0):
            self._losses[node.id] = losses
            self._latest.pop(node.id, None)
            self._votes = {key: voted for key, voted in self._votes.items() if key[0] != node.id}
        self._seen[node.id] = saved
        if saved.voted is None:
            self._check_memory(node, saved)
            return
        known = self._votes.setdefault((node.id, saved.epoch), saved.voted.id)
        self._latest[node.id] = max(saved.epoch, self._latest.get(node.id, -1))
        if known != saved.voted.id:
            raise Violation(
                f"node {node.id} voted for {known} and for {saved.voted.id} in quorum epoch"
                f" {saved.epoch}"
            )

    def _check_memory(self, node: SimNode, saved: ElectionState) -> None:
        """It goes by no vote: it must not be free to give one again where it gave one."""
        latest = self._latest.get(node.id, -1)
        if saved.epoch < latest or (saved.epoch == latest and saved.leader_id == NO_LEADER):
            raise Violation(
                f"node {node.id} voted for {self._votes[node.id, latest]} in quorum epoch {latest} and"
                f" has forgotten it: it continues in epoch {saved.epoch} without a vote"
            )
