"""The judges of a cluster that migrates, and what makes each of them look.

Those of partitions, clients and znodes follow the whole run. Those of a quorum's log begin again with each
attempt, whose controllers are formatted again, and look at nodes under KRaft alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from barnabas.metadata.image.topic import PartitionState
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.dispatch import Judges
from barnabas.sim.checkers.feature_levels import FinalizedLevels
from barnabas.sim.checkers.images import EqualOffsetEqualImage
from barnabas.sim.checkers.leader_completeness import LeaderCompleteness
from barnabas.sim.checkers.leader_in_isr import LastMembers, LeaderInIsr
from barnabas.sim.checkers.machine_states import MachinesAreValid
from barnabas.sim.checkers.new_partitions import NewPartitions
from barnabas.sim.checkers.producer_id_blocks import ProducerIdBlocks
from barnabas.sim.checkers.quorum_leaders import OneLeaderPerQuorumEpoch
from barnabas.sim.checkers.quorum_logs import QuorumLogs
from barnabas.sim.checkers.reassignments import ReassignmentsKeepMinIsr
from barnabas.sim.checkers.snapshot_files import SnapshotsSayWhatTheLogSays
from barnabas.sim.checkers.votes import OneVotePerEpoch
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import History
from barnabas.sim.migration.cluster import MigrationCluster
from barnabas.sim.migration.rows import (
    DecidedRows,
    ImagesSayWhatIsDecided,
    TakeoversWaitForBrokers,
)
from barnabas.sim.migration.sameness import AllSidesAgree, BothSayTheSame
from barnabas.sim.story import Story
from barnabas.sim.zookeeper_mode.controller_writes import OneControllerWrites
from barnabas.sim.zookeeper_mode.judges import (
    LeadersGoByDecisions,
    ZookeeperJudges,
    judges_of_brokers,
)
from barnabas.sim.zookeeper_mode.znode_order import ZnodesGoForward


def judges_of(cluster: MigrationCluster, history: History, story: Story) -> list[Checker]:
    """A fresh one of each, for one run."""
    writes = OneControllerWrites(lambda: cluster.is_copied)
    znodes = ZnodesGoForward(lambda: writes.claim is not None)
    cluster.written.rules += [writes, znodes]
    rows = DecidedRows(znodes)
    return [
        *judges_of_brokers(
            history, story, ImagesSayWhatIsDecided(rows), LeadersGoByDecisions(rows.of)
        ),
        PresentQuorum(cluster, history, story, rows),
        BothSayTheSame(),
        AllSidesAgree(history),
    ]


class PresentQuorum(Checker):
    """The judges of the quorum of the present attempt."""

    def __init__(
        self, cluster: MigrationCluster, history: History, story: Story, rows: DecidedRows
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._story = story
        self._rows = rows
        self._attempt = 0
        self._checkers: list[Checker] = []
        self._on_event: Callable[[object], None] = lambda touched: None

    def on_event(self, touched: SimNode) -> None:
        """An event ran on a node under KRaft."""
        if self._attempt != self._cluster.attempt:
            self._begin()
        self._on_event(touched)

    def _begin(self) -> None:
        self._attempt = self._cluster.attempt
        last_members = LastMembers()
        reassignments = ReassignmentsKeepMinIsr(
            self._on_change,
            [
                ProducerIdBlocks(),
                FinalizedLevels(self._history),
                NewPartitions(self._history, self._cluster.was_copied),
                last_members,
                self._rows,
                TakeoversWaitForBrokers(self._cluster),
            ],
        )
        self._cluster.committed_image = reassignments.image
        self._checkers = [
            OneVotePerEpoch(),
            OneLeaderPerQuorumEpoch(),
            QuorumLogs(
                [
                    self._story.quorum,
                    LeaderCompleteness(),
                    reassignments,
                    SnapshotsSayWhatTheLogSays(),
                ]
            ),
            EqualOffsetEqualImage(),
            LeaderInIsr(last_members),
            MachinesAreValid(),
        ]
        self._on_event = Judges(self._cluster, self._checkers).on_event

    def _on_change(
        self,
        offset: int,
        before: PartitionState,
        after: PartitionState,
        record: PartitionChangeRecord,
    ) -> None:
        self._story.on_change(offset, before, after, record)
        self._rows.on_change(offset, before, after, record)

    def finish(self, cluster: SimCluster) -> None:
        if self._cluster.committed_image is None:
            return
        under_kraft = cast(SimCluster, _UnderKraft(self._cluster))
        for checker in self._checkers:
            checker.finish(under_kraft)


class _UnderKraft:
    """The part of a cluster that judges of a quorum ask for: its nodes under KRaft."""

    def __init__(self, cluster: MigrationCluster) -> None:
        self.world, self.topology = cluster.world, cluster.topology
        self.properties = cluster.properties
        self.nodes = {
            node_id: node for node_id, node in cluster.nodes.items() if node.node is not None
        }

    def up(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.is_up]


class MigrationJudges(ZookeeperJudges):
    """The judges of ZooKeeper mode, with those of the present quorum."""

    def __init__(self, cluster: SimCluster, checkers: list[Checker]) -> None:
        super().__init__(cluster, checkers)
        self._quorum = next(one for one in checkers if isinstance(one, PresentQuorum))
        self._both = next(one for one in checkers if isinstance(one, BothSayTheSame))

    def on_event(self, touched: object) -> None:
        if isinstance(touched, SimNode) and touched.node is not None:
            self._quorum.on_event(touched)
            self._both.look(self._cluster, touched)
        super().on_event(touched)
