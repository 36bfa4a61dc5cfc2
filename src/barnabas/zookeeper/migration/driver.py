"""How the active controller of a quorum takes a running cluster over from ZooKeeper: a pure state machine.

`step(migration, event)` gives the next `Migration` and the effects that the host performs, in order. Each
effect is answered by one event, or by none if the claim has ended.

INACTIVE → (elected) WAIT_FOR_CONTROLLER_QUORUM → (every controller migrates) WAIT_FOR_BROKERS → (every broker
of the znodes is registered and serves) BECOME_CONTROLLER → (`/controller` is taken) ZK_MIGRATION, or, where
the log has a copy, SYNC_KRAFT_TO_ZK → DUAL_WRITE.

A write whose outcome is not known, or that another controller's claim prevented, leads back to
BECOME_CONTROLLER: `/controller` is claimed under a new epoch, all znodes are read, and what they lack is
written. A new leader of the quorum begins there, too. What is in the log decides what comes next, never what
znodes say of an earlier attempt.

Source: KIP-866 and Kafka 3.9's ``KRaftMigrationDriver``, whose names the states have (its
KRAFT_CONTROLLER_TO_BROKER_COMM takes no time here).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from barnabas.controller.migration_state import ZkMigrationState

RETRY_MS = 1_000.0
"""After a write that failed, and between two looks at who is missing."""


class MigrationPhase(Enum):
    """The phase of the migration; the names are those of Kafka's ``MigrationDriverState``."""

    INACTIVE = "inactive"
    """This controller does not lead, or the cluster does not migrate (any more)."""
    WAIT_FOR_CONTROLLER_QUORUM = "wait_for_controller_quorum"
    WAIT_FOR_BROKERS = "wait_for_brokers"
    BECOME_CONTROLLER = "become_controller"
    ZK_MIGRATION = "zk_migration"
    SYNC_KRAFT_TO_ZK = "sync_kraft_to_zk"
    DUAL_WRITE = "dual_write"


@dataclass(frozen=True, slots=True)
class Migration:
    """The state: where the migration is, in which epoch of the quorum, and why it waits."""

    phase: MigrationPhase = MigrationPhase.INACTIVE
    epoch: int = -1
    state: int = ZkMigrationState.NONE
    """The log's, as committed."""
    waits_for: tuple[str, ...] = ()
    """A sentence for each thing that is missing; none where nothing is."""
    unready_controllers: tuple[str, ...] = ()

    def validate(self) -> None:
        """Assert what holds in every state."""
        if self.phase is MigrationPhase.INACTIVE:
            assert not self.waits_for, self
        else:
            assert self.epoch >= 0, self
        states = STATES_OF_PHASE.get(self.phase)
        assert states is None or self.state in states, self


STATES_OF_PHASE: Mapping[MigrationPhase, frozenset[int]] = {
    MigrationPhase.WAIT_FOR_BROKERS: frozenset({ZkMigrationState.PRE_MIGRATION}),
    MigrationPhase.BECOME_CONTROLLER: frozenset(
        {ZkMigrationState.PRE_MIGRATION, ZkMigrationState.MIGRATION}
    ),
    MigrationPhase.ZK_MIGRATION: frozenset({ZkMigrationState.PRE_MIGRATION}),
    MigrationPhase.SYNC_KRAFT_TO_ZK: frozenset({ZkMigrationState.MIGRATION}),
    MigrationPhase.DUAL_WRITE: frozenset({ZkMigrationState.MIGRATION}),
}
"""The states of the committed log in each phase of the takeover. In the other phases it may have any."""


# -- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeadershipWon:
    """This controller leads the quorum in `epoch`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """It leads no more."""


@dataclass(frozen=True, slots=True)
class LogStateSeen:
    """The state of the committed log: its migration state, and a sentence for each controller that does not
    migrate, or for a level that cannot carry the metadata."""

    state: int
    unready_controllers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The obstacles to the takeover, a sentence each: missing brokers, znodes that cannot be copied."""

    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claimed:
    """`/controller` is this controller's."""


@dataclass(frozen=True, slots=True)
class CopyAppended:
    """The copy of the znodes was appended to the log; its commit is a `LogStateSeen`."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The znodes say what the committed log says."""


@dataclass(frozen=True, slots=True)
class EffectFailed:
    """An effect failed, or it is unknown whether it did."""

    why: str


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The time that ``Wait`` named is over."""


Event = (
    LeadershipWon
    | LeadershipLost
    | LogStateSeen
    | Surveyed
    | Claimed
    | CopyAppended
    | CaughtUp
    | EffectFailed
    | RetryDue
)


# -- effects -----------------------------------------------------------------------------------------


class Effect(Enum):
    """The host's next act."""

    SURVEY = "survey"
    """Read who is in the znodes, and answer `Surveyed` or `EffectFailed`."""
    CLAIM = "claim"
    """Take `/controller`, raise `/controller_epoch`: `Claimed` or `EffectFailed`."""
    COPY = "copy"
    """Read all znodes, append them as one metadata transaction: `CopyAppended` or `EffectFailed`."""
    CATCH_UP = "catch up"
    """Read all znodes, write what the log has and they lack: `CaughtUp` or `EffectFailed`."""
    COMMAND = "command"
    """Begin to send LeaderAndIsr, UpdateMetadata and StopReplica to brokers in ZooKeeper mode."""
    FOLLOW = "follow"
    """From now on write to the znodes what is committed: `EffectFailed` where one of these writes fails."""
    STOP = "stop"
    """Write and command no more; answers that are under way count no more."""
    WAIT = "wait"
    """`RETRY_MS`, then `RetryDue`."""


Step = tuple[Migration, Sequence[Effect]]


def step(now: Migration, event: Event) -> Step:
    """The next state, and what is to be done."""
    after, effects = _step(now, event)
    after.validate()
    return after, effects


def _step(now: Migration, event: Event) -> Step:
    match event:
        case LeadershipWon(epoch):
            return _look_at_log(
                replace(now, phase=MigrationPhase.WAIT_FOR_CONTROLLER_QUORUM, epoch=epoch)
            )
        case LeadershipLost():
            return Migration(state=now.state), (Effect.STOP,)
        case LogStateSeen(state, unready):
            return _on_log(replace(now, state=state, unready_controllers=unready))
    if now.phase is MigrationPhase.INACTIVE:
        return now, ()
    match event:
        case Surveyed(missing) if now.phase is MigrationPhase.WAIT_FOR_BROKERS:
            if missing:
                return replace(now, waits_for=missing), (Effect.WAIT,)
            return _claim(now)
        case Claimed() if now.phase is MigrationPhase.BECOME_CONTROLLER:
            if now.state == ZkMigrationState.PRE_MIGRATION:
                return _at(now, MigrationPhase.ZK_MIGRATION), (Effect.COPY,)
            return _at(now, MigrationPhase.SYNC_KRAFT_TO_ZK), (Effect.CATCH_UP,)
        case CaughtUp() if now.phase is MigrationPhase.SYNC_KRAFT_TO_ZK:
            # Brokers are commanded, and then whatever is committed is written: no step waits in between.
            return _at(now, MigrationPhase.DUAL_WRITE), (Effect.COMMAND, Effect.FOLLOW)
        case EffectFailed(why):
            return replace(now, waits_for=(why,)), (Effect.STOP, Effect.WAIT)
        case RetryDue():
            return _again(now)
    return now, ()


def _at(now: Migration, phase: MigrationPhase) -> Migration:
    return replace(now, phase=phase, waits_for=())


def _claim(now: Migration) -> Step:
    return _at(now, MigrationPhase.BECOME_CONTROLLER), (Effect.CLAIM,)


def _on_log(now: Migration) -> Step:
    if now.phase is MigrationPhase.WAIT_FOR_CONTROLLER_QUORUM:
        return _look_at_log(now)
    if now.phase is MigrationPhase.INACTIVE:
        return now, ()
    if now.state == ZkMigrationState.POST_MIGRATION:
        return replace(now, phase=MigrationPhase.INACTIVE, waits_for=()), (Effect.STOP,)
    if now.phase is MigrationPhase.ZK_MIGRATION and now.state == ZkMigrationState.MIGRATION:
        return _at(now, MigrationPhase.SYNC_KRAFT_TO_ZK), (Effect.CATCH_UP,)
    return now, ()


def _look_at_log(now: Migration) -> Step:
    """While nothing is taken over yet."""
    if now.state == ZkMigrationState.PRE_MIGRATION:
        if now.unready_controllers:
            return replace(now, waits_for=now.unready_controllers), ()
        return _at(now, MigrationPhase.WAIT_FOR_BROKERS), (Effect.SURVEY,)
    if now.state == ZkMigrationState.MIGRATION:
        return _claim(now)  # another controller of this quorum has copied everything
    return now, ()


def _again(now: Migration) -> Step:
    match now.phase:
        case MigrationPhase.WAIT_FOR_BROKERS:
            return now, (Effect.SURVEY,)
        case MigrationPhase.ZK_MIGRATION | MigrationPhase.BECOME_CONTROLLER if (
            now.state == ZkMigrationState.PRE_MIGRATION
        ):
            return _at(now, MigrationPhase.WAIT_FOR_BROKERS), (Effect.SURVEY,)
        case MigrationPhase.WAIT_FOR_CONTROLLER_QUORUM:
            return now, ()
        case _:  # why it failed is said until the claim succeeds
            return replace(now, phase=MigrationPhase.BECOME_CONTROLLER), (Effect.CLAIM,)
