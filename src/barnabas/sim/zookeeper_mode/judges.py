"""The judges of a cluster in ZooKeeper mode, and what makes each of them look."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.sim.checkers.answered_faults import NoFaultIsAnswered
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.committed_offsets import CommittedOffsetsStay
from barnabas.sim.checkers.committed_records import CommittedRecordsStay
from barnabas.sim.checkers.coordinator_state import CoordinatorsKnowTheirLogs
from barnabas.sim.checkers.derived_files import DerivedFilesFit
from barnabas.sim.checkers.dispatch import Judges, Seen
from barnabas.sim.checkers.expired_offsets import OnlyIdleOffsetsExpire
from barnabas.sim.checkers.group_owners import OneOwnerPerGeneration
from barnabas.sim.checkers.high_watermark import HighWatermarkNeverGoesBack
from barnabas.sim.checkers.kept_logs import KilledReplicasKeepTheirLogs
from barnabas.sim.checkers.known_files import EveryFileIsKnown
from barnabas.sim.checkers.log_configs import LogsFollowTheirConfigs
from barnabas.sim.checkers.machine_states import validate_broker
from barnabas.sim.checkers.partition_leaders import OneLeaderPerPartitionEpoch
from barnabas.sim.checkers.partition_log_matching import PartitionLogMatching
from barnabas.sim.checkers.producer_sequences import ProducerSequences
from barnabas.sim.checkers.replica_logs import ReplicaLogs, Rule, Watched
from barnabas.sim.checkers.throttled_replicas import OnlyThrottledReplicasWait
from barnabas.sim.checkers.transaction_decisions import MarkersFollowDecisions
from barnabas.sim.checkers.transaction_markers import TransactionMarkers
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import History, Violation
from barnabas.sim.story import Story
from barnabas.sim.zookeeper_mode.cluster import ZookeeperCluster
from barnabas.sim.zookeeper_mode.controller_writes import OneControllerWrites
from barnabas.sim.zookeeper_mode.obedience import (
    ImagesSayWhatIsWritten,
    NoDeposedControllerIsObeyed,
)
from barnabas.sim.zookeeper_mode.settled import EveryoneSaysTheSame
from barnabas.sim.zookeeper_mode.znode_order import Row, ZnodesGoForward
from barnabas.types import Uuid
from barnabas.zookeeper.node.zookeeper_node import ZookeeperNode


def judges_of(cluster: ZookeeperCluster, history: History, story: Story) -> list[Checker]:
    """A fresh one of each, for one run; those of znodes follow the ensemble of `cluster`."""
    znodes = ZnodesGoForward()
    cluster.written.rules += [OneControllerWrites(), znodes]
    return [
        *judges_of_brokers(
            history, story, ImagesSayWhatIsWritten(znodes), LeadersGoByDecisions(znodes.rows_of)
        ),
        EveryoneSaysTheSame(history),
    ]


def judges_of_brokers(
    history: History, story: Story, of_images: Checker, of_leaders: Rule
) -> list[Checker]:
    """The judges of brokers and their clients. `of_images` and `of_leaders` know what brokers may go by."""
    owners = OneOwnerPerGeneration(forgets_deletions=history.commits.forgets_deletions)
    return [
        NoDeposedControllerIsObeyed(),
        of_images,
        OneLeaderPerPartitionEpoch(),
        ReplicaLogs(
            [
                story,
                PartitionLogMatching(),
                KilledReplicasKeepTheirLogs(),
                CommittedRecordsStay(history.promise),
                ProducerSequences(history),
                TransactionMarkers(),
                of_leaders,
                HighWatermarkNeverGoesBack(),
            ]
        ),
        owners,
        OnlyIdleOffsetsExpire(history, owners),
        CommittedOffsetsStay(history.commits),
        MarkersFollowDecisions(),
        OnlyThrottledReplicasWait(),
        LogsFollowTheirConfigs(),
        DerivedFilesFit(),
        CoordinatorsKnowTheirLogs(),
        EveryFileIsKnown(),
        BrokersAreValid(),
        NoFaultIsAnswered(),
    ]


class LeadersGoByDecisions(Rule):
    """A partition's leader goes by an ISR that was decided for its partition epoch, or by a larger one: what
    is decided again before it is written is written once."""

    def __init__(self, rows_of: Callable[[Uuid, int, int], Sequence[Row]]) -> None:
        """`rows_of` (topic, partition, partition epoch): what was decided, by each side that decides."""
        self._rows_of = rows_of

    def on_leading(self, replica: Watched) -> None:
        self._check(replica)

    def on_isr(self, replica: Watched, joined: tuple[int, ...]) -> None:
        self._check(replica)

    def _check(self, replica: Watched) -> None:
        leader, partition = replica.partition.leader, replica.partition
        if leader is None:
            return
        rows = self._rows_of(partition.topic_id, partition.index, leader.partition_epoch)
        if not any(set(row[2]) <= set(leader.isr) for row in rows):
            raise Violation(
                f"{replica.where}: goes by ISR {list(leader.isr)} of partition epoch"
                f" {leader.partition_epoch}, for which {rows} was decided"
            )


class BrokersAreValid(Checker):
    """Each broker's own invariants, and its controller's, sampled."""

    EVENTS_BETWEEN_CHECKS = 500

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        inside = node.running
        if node.node is not None:
            return  # of a quorum
        if isinstance(inside, ZookeeperNode):
            inside.validate()
        if node.broker is not None:
            validate_broker(node.broker)

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            self.check(cluster, node)


class ZookeeperJudges(Judges):
    """The judges of the other mode, without a quorum to look at."""

    def on_event(self, touched: object) -> None:
        if not isinstance(touched, SimNode) or touched.broker is None:
            return
        process = touched.process
        if process is not None and process.alive:
            seen = self._seen.get(touched)
            if seen is None:
                seen = self._seen[touched] = Seen(touched)
            self._call_checkers(seen, touched, touched.image)
