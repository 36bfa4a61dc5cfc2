"""Outside judges of a simulated cluster, one file per invariant of ``docs/invariants.md``.

A checker is a class with `check(cluster, node)`, called with the node that the last event ran on, and
`finish(cluster)`, called once everything has healed. It keeps what it saw, so that it looks only at what is
new, and looks at everything now and then. It raises :class:`barnabas.sim.history.Violation`.

Checkers of logs are rules over what :mod:`~barnabas.sim.checkers.replica_logs` (partitions) and
:mod:`~barnabas.sim.checkers.quorum_logs` (metadata) follow, so that every batch is read once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.sim.checkers.acknowledged_topics import AcknowledgedTopicsStay
from barnabas.sim.checkers.answered_faults import NoFaultIsAnswered
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.committed_metadata import LeadersGoByWhatIsCommitted
from barnabas.sim.checkers.committed_offsets import CommittedOffsetsStay
from barnabas.sim.checkers.committed_records import CommittedRecordsStay
from barnabas.sim.checkers.coordinator_state import CoordinatorsKnowTheirLogs
from barnabas.sim.checkers.derived_files import DerivedFilesFit
from barnabas.sim.checkers.expired_offsets import OnlyIdleOffsetsExpire
from barnabas.sim.checkers.feature_levels import FinalizedLevels
from barnabas.sim.checkers.group_owners import OneOwnerPerGeneration
from barnabas.sim.checkers.high_watermark import HighWatermarkNeverGoesBack
from barnabas.sim.checkers.images import EqualOffsetEqualImage
from barnabas.sim.checkers.kept_logs import KilledReplicasKeepTheirLogs
from barnabas.sim.checkers.known_files import EveryFileIsKnown
from barnabas.sim.checkers.leader_completeness import LeaderCompleteness
from barnabas.sim.checkers.leader_in_isr import LastMembers, LeaderInIsr
from barnabas.sim.checkers.log_configs import LogsFollowTheirConfigs
from barnabas.sim.checkers.machine_states import MachinesAreValid
from barnabas.sim.checkers.new_partitions import NewPartitions
from barnabas.sim.checkers.partition_leaders import OneLeaderPerPartitionEpoch
from barnabas.sim.checkers.partition_log_matching import PartitionLogMatching
from barnabas.sim.checkers.producer_id_blocks import ProducerIdBlocks
from barnabas.sim.checkers.producer_sequences import ProducerSequences
from barnabas.sim.checkers.quorum_leaders import OneLeaderPerQuorumEpoch
from barnabas.sim.checkers.quorum_logs import QuorumLogs
from barnabas.sim.checkers.reassignments import ReassignmentsKeepMinIsr
from barnabas.sim.checkers.replica_logs import ReplicaLogs
from barnabas.sim.checkers.snapshot_files import SnapshotsSayWhatTheLogSays
from barnabas.sim.checkers.throttled_replicas import OnlyThrottledReplicasWait
from barnabas.sim.checkers.transaction_decisions import MarkersFollowDecisions
from barnabas.sim.checkers.transaction_markers import TransactionMarkers
from barnabas.sim.checkers.votes import OneVotePerEpoch
from barnabas.sim.history import History

if TYPE_CHECKING:
    from barnabas.sim.story import Story


def checkers_after_loss() -> list[Checker]:
    """The checkers that hold in the end also where committed metadata were given up: how things fit
    together."""
    return [
        EqualOffsetEqualImage(),
        LeaderInIsr(LastMembers()),
        LogsFollowTheirConfigs(),
        DerivedFilesFit(),
        CoordinatorsKnowTheirLogs(),
        EveryFileIsKnown(),
        MachinesAreValid(),
        NoFaultIsAnswered(),
    ]


def all_checkers(history: History, story: Story) -> list[Checker]:
    """A fresh one of each, for one run. `history` holds what clients were promised and asked for. The
    checkers record in `story` what happens, so that a failure can be explained."""
    last_members = LastMembers()
    owners = OneOwnerPerGeneration(forgets_deletions=history.commits.forgets_deletions)
    reassignments = ReassignmentsKeepMinIsr(
        story.on_change,
        [ProducerIdBlocks(), FinalizedLevels(history), NewPartitions(history), last_members],
    )
    return [
        OneVotePerEpoch(),
        OneLeaderPerQuorumEpoch(),
        QuorumLogs(
            [story.quorum, LeaderCompleteness(), reassignments, SnapshotsSayWhatTheLogSays()]
        ),
        EqualOffsetEqualImage(),
        OneLeaderPerPartitionEpoch(),
        LeaderInIsr(last_members),
        ReplicaLogs(
            [
                story,
                PartitionLogMatching(),
                KilledReplicasKeepTheirLogs(),
                CommittedRecordsStay(history.promise),
                ProducerSequences(history),
                TransactionMarkers(),
                LeadersGoByWhatIsCommitted(reassignments.image),
                HighWatermarkNeverGoesBack(),
            ]
        ),
        owners,
        OnlyIdleOffsetsExpire(history, owners),
        CommittedOffsetsStay(history.commits),
        MarkersFollowDecisions(),
        AcknowledgedTopicsStay(history),
        OnlyThrottledReplicasWait(),
        LogsFollowTheirConfigs(),
        DerivedFilesFit(),
        CoordinatorsKnowTheirLogs(),
        EveryFileIsKnown(),
        MachinesAreValid(),
        NoFaultIsAnswered(),
    ]
