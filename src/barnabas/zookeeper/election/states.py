"""Who is controller, as one broker sees it: a pure state machine of named states.

`moves.step(now, event)` gives the next `ZnodeElection` and the effects that the host performs, in order. A
look at the znodes is a pass of questions, one at a time, each answered by one event (`PassState`). While
another broker is controller, its connection and its process are watched (`Presence`).

A broker that finds no `/controller` makes it and raises `/controller_epoch` in one multi-operation: one of
them wins. A change of `/controller` during a pass begins another pass after it.

Source: Kafka's ``KafkaController.elect`` and ``KafkaZkClient.registerControllerAndIncrementControllerEpoch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from barnabas.types import Endpoint
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER_EPOCH
from barnabas.zookeeper.operations import CheckVersion

ELECTION_RETRY_MS = 100.0
MENDED_LOOK_MS = 1_000.0
"""How often an epoch is read again that could not be read."""
MENDED_EPOCHS = 1_000
"""How many elections this broker may not have heard of."""


class Leadership(NamedTuple):
    """A won election: the epoch, and the version of its znode, on which all writes are conditional."""

    epoch: int
    version: int

    @property
    def check(self) -> CheckVersion:
        return CheckVersion(CONTROLLER_EPOCH, self.version)


NOTHING_FOUND = Leadership(-1, -1)


class Role(Enum):
    """The part that this broker takes in elections."""

    OBSERVER = "observer"
    """It is not registered yet, and is not elected."""
    CANDIDATE = "candidate"
    LEADER = "leader"
    """It is the controller, by its `Leadership`."""


class PassState(Enum):
    """The question of the pass that is under way."""

    IDLE = "idle"
    READS_EPOCH = "reads epoch"
    WRITES_EPOCH = "writes epoch"
    """The znode of the epoch is made, or replaced because it cannot be read."""
    READS_CONTROLLER = "reads controller"
    WATCHES_ABSENCE = "watches absence"
    """There is no controller, and this broker does not stand: it hears of the next one."""
    READS_REGISTRATION = "reads registration"
    """Another broker is controller; its registration says where it is reached."""
    CREATES_ZNODE = "creates znode"


class Presence(Enum):
    """The knowledge about the process of another broker that is controller."""

    UNWATCHED = "unwatched"
    """No other broker is controller, or it is not known where it is reached."""
    CONNECTED = "connected"
    """A connection is kept, whose end is a sign of the controller's end."""
    PROBED = "probed"
    """The connection has ended: its listener is asked. Further signs change nothing meanwhile."""
    REMOVED = "removed"
    """The process is gone: its znode is being removed."""


@dataclass(frozen=True, slots=True)
class ZnodeElection:
    """The state of one broker."""

    node_id: int
    own_endpoint: Endpoint
    role: Role = Role.OBSERVER
    leadership: Leadership | None = None
    """None unless the role is LEADER."""
    state: PassState = PassState.IDLE
    looks_again: bool = False
    """`/controller` has changed during this pass."""
    found: Leadership = NOTHING_FOUND
    """The epoch that the last pass has read, with its version."""
    epoch_version: int = -1
    """The version of the epoch with the present controller."""
    known_epoch: int = -1
    """The epoch of the controller that is known, or whose end is; -1 where neither is."""
    controller_id: int = -1
    endpoint: Endpoint | None = None
    is_kraft: bool = False
    """Whether `/controller` is a KRaft controller's, which has taken the cluster over (KIP-866)."""
    presence: Presence = Presence.UNWATCHED
    watch: int = 0
    """Counts the controllers that were seen, so that a late answer about a former one is left alone."""

    def validate(self) -> None:
        """Assert what holds in every state."""
        assert (self.leadership is not None) == (self.role is Role.LEADER), self
        if self.leadership is not None:
            assert self.controller_id == self.node_id and not self.is_kraft, self
            assert self.known_epoch == self.leadership.epoch, self
        assert self.endpoint is None or self.controller_id >= 0, self
        assert not (self.looks_again and self.state is PassState.IDLE), self
        is_other = self.endpoint is not None and self.controller_id != self.node_id
        assert is_other == (self.presence is not Presence.UNWATCHED), self


# -- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookDue:
    """The session is connected, `/controller` has changed, or the time for another look has come."""


@dataclass(frozen=True, slots=True)
class Registered:
    """This broker is registered, and may be elected. A pass begins where the session is connected."""

    connected: bool


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session has expired, and with it whatever it held."""


@dataclass(frozen=True, slots=True)
class ControllerResigned:
    """A write failed, or its outcome is not known: this broker gives up `/controller`."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """A question has no answer, or an election was lost. `again`: whether another pass follows."""

    again: bool


@dataclass(frozen=True, slots=True)
class EpochMissing:
    """There is no `/controller_epoch` yet."""


@dataclass(frozen=True, slots=True)
class EpochUnreadable:
    """`/controller_epoch` cannot be read; `known` is the latest epoch that this broker has obeyed, or -1."""

    version: int
    known: int


@dataclass(frozen=True, slots=True)
class EpochFound:
    """`/controller_epoch` was read."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class EpochWritten:
    """`/controller_epoch` was written, by this broker or by another one."""


@dataclass(frozen=True, slots=True)
class ControllerMissing:
    """There is no `/controller`."""


@dataclass(frozen=True, slots=True)
class ControllerUnreadable:
    """`/controller` cannot be read."""


@dataclass(frozen=True, slots=True)
class ControllerFound:
    """`/controller` names a broker, or a KRaft controller; `is_own`: this session has made it."""

    controller: int
    is_kraft: bool
    is_own: bool


@dataclass(frozen=True, slots=True)
class AbsenceWatched:
    """A watch is set; `/controller` may have been made meanwhile."""

    appeared: bool


@dataclass(frozen=True, slots=True)
class RegistrationRead:
    """The registration of the controller says where it is reached; None where it does not."""

    controller: int
    endpoint: Endpoint | None
    connected: bool


@dataclass(frozen=True, slots=True)
class ElectionWon:
    """This broker has made `/controller` and raised the epoch, which has this version now."""

    version: int


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    """The connection to controller number `watch` has ended, was refused or carried no answer."""

    watch: int


@dataclass(frozen=True, slots=True)
class Probed:
    """The listener of controller number `watch` was asked; `version` is of the epoch then."""

    watch: int
    version: int
    alive: bool


@dataclass(frozen=True, slots=True)
class ConnectionDue:
    """The time to connect to controller number `watch` again has come."""

    watch: int


@dataclass(frozen=True, slots=True)
class SuspicionDue:
    """The removal of the znode is done, and a pass had its time; controller number `watch` may live."""

    watch: int


Event = (
    LookDue | Registered | SessionEnded | ControllerResigned | AnswerFailed | EpochMissing | EpochUnreadable
    | EpochFound | EpochWritten | ControllerMissing | ControllerUnreadable | ControllerFound
    | AbsenceWatched | RegistrationRead | ElectionWon | ConnectionEnded | Probed | ConnectionDue
    | SuspicionDue
)  # fmt: skip


# -- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadEpoch:
    """Read `/controller_epoch`."""


@dataclass(frozen=True, slots=True)
class MakeEpoch:
    """Make `/controller_epoch`."""


@dataclass(frozen=True, slots=True)
class MendEpoch:
    """Write `epoch` over the version that cannot be read."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class ReadController:
    """Read `/controller`, and watch it."""


@dataclass(frozen=True, slots=True)
class WatchAbsence:
    """Watch for the creation of `/controller`."""


@dataclass(frozen=True, slots=True)
class ReadRegistration:
    """Read where broker `controller` is reached."""

    controller: int


@dataclass(frozen=True, slots=True)
class Stand:
    """Make `/controller` and raise the epoch that was found."""

    found: Leadership


@dataclass(frozen=True, slots=True)
class LookLater:
    """`LookDue` after this time."""

    after_ms: float


@dataclass(frozen=True, slots=True)
class Win:
    """This broker is controller from now on."""

    leadership: Leadership


@dataclass(frozen=True, slots=True)
class Lose:
    """This broker is not controller any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class ResignController:
    """Say that this broker gives `/controller` up."""

    reason: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove `/controller`, if the epoch has this version. `LookDue` follows, and `SuspicionDue` where a
    `watch` is named."""

    version: int
    watch: int | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Watch the connection to the former controller no longer."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The controller is this one; -1 and None where it is not known."""

    controller: int
    endpoint: Endpoint | None


@dataclass(frozen=True, slots=True)
class AnnounceKraft:
    """A KRaft controller rules the cluster."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Have `ConnectionEnded` when a connection to `endpoint` ends."""

    endpoint: Endpoint
    watch: int


@dataclass(frozen=True, slots=True)
class Connect:
    """Keep a connection to `endpoint`."""

    endpoint: Endpoint
    watch: int


@dataclass(frozen=True, slots=True)
class ConnectLater:
    """`ConnectionDue` after a while."""

    watch: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask whether `endpoint` takes connections; answer `Probed`."""

    endpoint: Endpoint
    watch: int
    version: int


@dataclass(frozen=True, slots=True)
class ReportGone:
    """Say that the controller's process is gone."""

    controller: int
    endpoint: Endpoint


Effect = (
    ReadEpoch | MakeEpoch | MendEpoch | ReadController | WatchAbsence | ReadRegistration | Stand | LookLater
    | Win | Lose | ResignController | Remove | Forget | Announce | AnnounceKraft | Watch | Connect
    | ConnectLater | Probe | ReportGone
)  # fmt: skip

Step = tuple[ZnodeElection, Sequence[Effect]]
