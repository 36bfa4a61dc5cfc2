"""The driver of an online migration as a pure machine: state and event give state and effects."""

from __future__ import annotations

from barnabas.controller.migration_state import ZkMigrationState
from barnabas.zookeeper.migration.driver import (
    CaughtUp,
    Claimed,
    Effect,
    EffectFailed,
    Event,
    LeadershipLost,
    LeadershipWon,
    LogStateSeen,
    Migration,
    MigrationPhase,
    RetryDue,
    Surveyed,
    step,
)

PRE = LogStateSeen(ZkMigrationState.PRE_MIGRATION)
COPIED = LogStateSeen(ZkMigrationState.MIGRATION)
FINAL = LogStateSeen(ZkMigrationState.POST_MIGRATION)


def after(*events: Event, begin: Migration | None = None) -> tuple[Migration, list[Effect]]:
    """The state after `events`, and the effects of the last one."""
    now, effects = begin or Migration(), list[Effect]()
    for event in events:
        now, found = step(now, event)
        effects = list(found)
    return now, effects


TAKEN = (PRE, LeadershipWon(3), Surveyed(()), Claimed())


def test_nothing_begins_before_every_controller_migrates() -> None:
    unready = LogStateSeen(ZkMigrationState.PRE_MIGRATION, ("controller 2 is not registered",))
    now, effects = after(unready, LeadershipWon(3))
    assert now.phase is MigrationPhase.WAIT_FOR_CONTROLLER_QUORUM and not effects
    assert now.waits_for == ("controller 2 is not registered",)
    now, effects = after(PRE, begin=now)
    assert now.phase is MigrationPhase.WAIT_FOR_BROKERS and effects == [Effect.SURVEY]


def test_nothing_is_claimed_while_a_broker_is_missing() -> None:
    now, effects = after(PRE, LeadershipWon(3), Surveyed(("broker 1 is missing",)))
    assert now.phase is MigrationPhase.WAIT_FOR_BROKERS and effects == [Effect.WAIT]
    now, effects = after(RetryDue(), begin=now)
    assert effects == [Effect.SURVEY]
    now, effects = after(Surveyed(()), begin=now)
    assert (
        now.phase is MigrationPhase.BECOME_CONTROLLER
        and effects == [Effect.CLAIM]
        and not now.waits_for
    )


def test_the_copy_is_made_once_and_then_both_are_written() -> None:
    now, effects = after(*TAKEN)
    assert now.phase is MigrationPhase.ZK_MIGRATION and effects == [Effect.COPY]
    now, effects = after(COPIED, begin=now)
    assert now.phase is MigrationPhase.SYNC_KRAFT_TO_ZK and effects == [Effect.CATCH_UP]
    now, effects = after(CaughtUp(), begin=now)
    assert now.phase is MigrationPhase.DUAL_WRITE and effects == [Effect.COMMAND, Effect.FOLLOW]


def test_a_new_leader_whose_log_has_the_copy_copies_nothing() -> None:
    now, effects = after(COPIED, LeadershipWon(4))
    assert now.phase is MigrationPhase.BECOME_CONTROLLER and effects == [Effect.CLAIM]
    now, effects = after(Claimed(), begin=now)
    assert now.phase is MigrationPhase.SYNC_KRAFT_TO_ZK and effects == [Effect.CATCH_UP]


def test_a_write_of_unknown_outcome_leads_back_to_the_claim() -> None:
    now, effects = after(*TAKEN, COPIED, CaughtUp(), EffectFailed("connection lost"))
    assert effects == [Effect.STOP, Effect.WAIT] and now.waits_for == ("connection lost",)
    now, effects = after(RetryDue(), begin=now)
    assert now.phase is MigrationPhase.BECOME_CONTROLLER and effects == [Effect.CLAIM]


def test_a_claim_that_failed_before_the_copy_looks_at_the_brokers_again() -> None:
    now, effects = after(PRE, LeadershipWon(3), Surveyed(()), EffectFailed("refused"), RetryDue())
    assert now.phase is MigrationPhase.WAIT_FOR_BROKERS and effects == [Effect.SURVEY]


def test_the_end_of_a_leadership_stops_everything() -> None:
    now, effects = after(*TAKEN, COPIED, CaughtUp(), LeadershipLost())
    assert now.phase is MigrationPhase.INACTIVE and effects == [Effect.STOP]
    assert after(CaughtUp(), begin=now) == (now, [])


def test_a_final_migration_writes_no_znode_any_more() -> None:
    now, effects = after(*TAKEN, COPIED, CaughtUp(), FINAL)
    assert now.phase is MigrationPhase.INACTIVE and effects == [Effect.STOP]
    assert after(FINAL, LeadershipWon(5))[1] == []


def test_a_cluster_that_never_was_on_zookeeper_has_nothing_to_do() -> None:
    now, effects = after(LogStateSeen(ZkMigrationState.NONE), LeadershipWon(1))
    assert now.phase is MigrationPhase.WAIT_FOR_CONTROLLER_QUORUM and not effects
