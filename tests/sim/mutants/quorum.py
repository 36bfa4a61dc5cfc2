"""Bugs of the metadata quorum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from barnabas.raft.core import effects, following, leading, machine, progress
from barnabas.raft.core import events as on
from barnabas.raft.core.log_metadata import VALID, FetchCheck, LogMetadata
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.quorum_math import committed_offset
from barnabas.raft.core.states import Leader
from barnabas.raft.runtime import effect_executor
from barnabas.raft.storage.replica_log import PartitionRaftLog
from tests.sim.mutants.planting import Mutant, Patch


def vote_not_persisted() -> list[Patch]:
    save = effect_executor.EffectExecutor._save_election

    def forgets_the_vote(
        self: effect_executor.EffectExecutor, effect: effects.SaveElection
    ) -> None:
        election = effect.election
        if election.voted is not None:
            effect = effect._replace(election=election._replace(voted=None))
        save(self, effect)

    return [(effect_executor._PERFORM, "SaveElection", forgets_the_vote)]


def high_watermark_counts_old_epochs() -> list[Patch]:
    def of_any_epoch(ends: Iterable[int], epoch_start_offset: int, present: int) -> int:
        return max(committed_offset(ends), present)

    return [(progress, "high_watermark", of_any_epoch)]


def leader_counts_what_it_has_not_synced() -> list[Patch]:
    honest = progress.ReplicaProgressTable.high_watermark

    def counts_too_much(
        self: progress.ReplicaProgressTable, own_end: int, start_offset: int, present: int
    ) -> int:
        return honest(self, 1 << 40, start_offset, present)

    return [(progress.ReplicaProgressTable, "high_watermark", counts_too_much)]


def follower_fetches_before_its_sync() -> list[Patch]:
    def does_not_wait(m: Machine, state: Any, leader_id: int, endpoint: Any) -> None:
        synced, m.log.synced_offset = m.log.synced_offset, m.log.end_offset
        honest(m, state, leader_id, endpoint)
        m.log.synced_offset = synced

    honest = following.fetch
    return [(following, "fetch", does_not_wait)]


def votes_for_an_incomplete_log() -> list[Patch]:
    return [(LogMetadata, "is_behind", lambda self, other: True)]


def divergence_overlooked() -> list[Patch]:
    honest = LogMetadata.check

    def trusting(self: LogMetadata, offset: int, epoch: int) -> FetchCheck:
        verdict = honest(self, offset, epoch)
        return VALID if verdict.at is not None and offset <= self.end_offset else verdict

    return [(LogMetadata, "check", trusting)]


def log_not_synced() -> list[Patch]:
    honest = PartitionRaftLog.sync_job

    def does_nothing(self: PartitionRaftLog) -> tuple[Callable[[], None], Callable[[], None]]:
        _, on_synced = honest(self)
        return (lambda: None), on_synced

    return [(PartitionRaftLog, "sync_job", does_nothing)]


def restarted_voter_silent() -> list[Patch]:
    """One that begins as a follower of the leader that it remembers, and sends it to no observer."""
    honest = leading.on_tick

    def tells_leaders_alone(m: Machine, event: on.Tick) -> None:
        if isinstance(m.state, Leader):
            honest(m, event)

    return [(machine._EVENTS, "Tick", tells_leaders_alone)]


MUTANTS = (
    Mutant("vote-not-persisted", "a vote is sent before it is on disk, and forgotten", vote_not_persisted),
    Mutant("old-epoch-commits", "the quorum's high watermark counts an entry of an older epoch",
           high_watermark_counts_old_epochs),
    Mutant("leader-counts-unsynced", "a quorum leader counts its own log before it is synced",
           leader_counts_what_it_has_not_synced),
    Mutant("follower-acks-unsynced", "a quorum follower fetches on before it has synced",
           follower_fetches_before_its_sync),
    Mutant("vote-for-incomplete-log", "a voter does not compare logs before it votes",
           votes_for_an_incomplete_log),
    Mutant("quorum-divergence", "a quorum leader does not notice that a follower's log parts from its own",
           divergence_overlooked),
    Mutant("quorum-log-not-synced", "the quorum's log is said to be synced and is not", log_not_synced),
    Mutant("restarted-voter-silent", "a voter that is restarted in its leader's epoch announces no leader",
           restarted_voter_silent),
)  # fmt: skip
