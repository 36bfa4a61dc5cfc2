"""The moves of an election in ZooKeeper mode: the tables, and `step`.

`ANYWHERE` has the events that come in every state, `PASSES` those of a look at the znodes, `PRESENCES` those
about the process of another controller. A pair of state and event that no table has is a bug, and so is a
move to a state that its row does not name. docs/zookeeper-election.md is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from barnabas.types import Endpoint
from barnabas.zookeeper.election.states import (
    ELECTION_RETRY_MS,
    MENDED_EPOCHS,
    MENDED_LOOK_MS,
    AbsenceWatched,
    Announce,
    AnnounceKraft,
    AnswerFailed,
    Connect,
    ConnectionDue,
    ConnectionEnded,
    ConnectLater,
    ControllerFound,
    ControllerMissing,
    ControllerResigned,
    ControllerUnreadable,
    Effect,
    ElectionWon,
    EpochFound,
    EpochMissing,
    EpochUnreadable,
    EpochWritten,
    Event,
    Forget,
    Leadership,
    LookDue,
    LookLater,
    Lose,
    MakeEpoch,
    MendEpoch,
    PassState,
    Presence,
    Probe,
    Probed,
    ReadController,
    ReadEpoch,
    ReadRegistration,
    Registered,
    RegistrationRead,
    Remove,
    ReportGone,
    ResignController,
    Role,
    SessionEnded,
    Stand,
    Step,
    SuspicionDue,
    Watch,
    WatchAbsence,
    Win,
    ZnodeElection,
)


class Move(NamedTuple):
    """One row of a table. `act` says what is done, in its docstring's first sentence as well."""

    act: Callable[[ZnodeElection, Any], Step]
    to: tuple[Enum, ...]


class UnknownMoveError(Exception):
    """No table has the move: a bug, never an answer to give."""


def step(now: ZnodeElection, event: Event) -> Step:
    """The next state, and what is to be done."""
    kind = type(event)
    match event:
        case ConnectionEnded(watch) | ConnectionDue(watch) | SuspicionDue(watch) | Probed(watch):
            if watch != now.watch:
                return now, ()  # it is about a former controller
            before: Enum = now.presence
            move = PRESENCES.get((before, kind))
        case _:
            before = now.state
            move = ANYWHERE.get(kind) or PASSES.get((before, kind))
    if move is None:
        raise UnknownMoveError(f"{event} while it {before.value}: {now}")
    after, effects = move.act(now, event)
    reached = after.presence if isinstance(before, Presence) else after.state
    if reached not in move.to and move.to:
        raise UnknownMoveError(f"{event} leads from {before.value} to {reached.value}")
    after.validate()
    return after, effects


# -- parts of moves ----------------------------------------------------------------------------------


def _read(now: ZnodeElection) -> Step:
    return replace(now, state=PassState.READS_EPOCH), (ReadEpoch(),)


def _end(now: ZnodeElection, *effects: Effect, again: bool) -> Step:
    """The pass ends; the next one begins at once where `/controller` has changed meanwhile."""
    if now.looks_again:
        after, begun = _read(replace(now, looks_again=False))
        return after, (*effects, *begun)
    later = (LookLater(ELECTION_RETRY_MS),) if again else ()
    return replace(now, state=PassState.IDLE), (*effects, *later)


def _lose(now: ZnodeElection, reason: str) -> tuple[ZnodeElection, tuple[Effect, ...]]:
    if now.leadership is None:
        return now, ()
    return replace(now, role=Role.CANDIDATE, leadership=None), (Lose(reason),)


def _win(now: ZnodeElection, leadership: Leadership) -> tuple[ZnodeElection, tuple[Effect, ...]]:
    after = replace(now, role=Role.LEADER, leadership=leadership, known_epoch=leadership.epoch)
    return after, (Win(leadership),)


def _know(
    now: ZnodeElection, controller: int, endpoint: Endpoint | None
) -> tuple[ZnodeElection, tuple[Effect, ...]]:
    """The controller is `controller`, which is reached at `endpoint`."""
    if (controller, endpoint) == (now.controller_id, now.endpoint):
        return now, ()
    after = replace(
        now,
        controller_id=controller,
        endpoint=endpoint,
        watch=now.watch + 1,
        presence=Presence.UNWATCHED,
    )
    effects: tuple[Effect, ...] = (Forget(), Announce(controller, endpoint))
    if endpoint is not None and controller != now.node_id:
        after = replace(after, presence=Presence.CONNECTED)
        effects += (Watch(endpoint, after.watch), Connect(endpoint, after.watch))
    return after, effects


def _probe(now: ZnodeElection) -> Step:
    assert now.endpoint is not None
    probe = Probe(now.endpoint, now.watch, now.epoch_version)
    return replace(now, presence=Presence.PROBED), (probe,)


# -- in every state ----------------------------------------------------------------------------------


def on_registered(now: ZnodeElection, event: Registered) -> Step:
    """The broker is a candidate from now on, and looks where the session is connected."""
    if now.role is not Role.OBSERVER:
        return now, ()
    after = replace(now, role=Role.CANDIDATE)
    return look(after, LookDue()) if event.connected else (after, ())


def on_expired(now: ZnodeElection, event: SessionEnded) -> Step:
    """The leadership is lost, and the controller is not known."""
    known_epoch = -1 if now.leadership is None else now.leadership.epoch
    after, lost = _lose(replace(now, known_epoch=known_epoch), "its ZooKeeper session has expired")
    after, known = _know(after, -1, None)
    return after, (*lost, *known)


def on_resigned(now: ZnodeElection, event: ControllerResigned) -> Step:
    """The leadership is lost, the znode is removed, and the controller is not known: clients are not sent to
    this broker any more. The next controller begins with what is written."""
    held = now.leadership
    if held is None:
        return now, ()
    after, lost = _lose(now, event.reason)
    after, known = _know(after, -1, None)
    return after, (ResignController(event.reason), *lost, *known, Remove(held.version))


def look(now: ZnodeElection, event: LookDue) -> Step:
    """A pass begins, now or after the one that is under way."""
    if now.state is PassState.IDLE:
        return _read(now)
    return replace(now, looks_again=True), ()


# -- a pass ------------------------------------------------------------------------------------------


def on_failed(now: ZnodeElection, event: AnswerFailed) -> Step:
    """The pass ends without an answer."""
    return _end(now, again=event.again)


def on_epoch_missing(now: ZnodeElection, event: EpochMissing) -> Step:
    """The first epoch of the cluster is written."""
    return replace(now, state=PassState.WRITES_EPOCH), (MakeEpoch(),)


def on_epoch_unreadable(now: ZnodeElection, event: EpochUnreadable) -> Step:
    """A broker that has obeyed a controller writes an epoch later than any that it may not have heard of.
    Every other one looks again, until a broker has."""
    if now.role is not Role.OBSERVER and event.known >= 0:
        mended = MendEpoch(event.known + MENDED_EPOCHS, event.version)
        return replace(now, state=PassState.WRITES_EPOCH), (mended,)
    after, effects = _end(now, again=False)
    return after, (*effects, LookLater(MENDED_LOOK_MS))


def on_epoch_written(now: ZnodeElection, event: EpochWritten) -> Step:
    """The pass ends, and another one reads what is written."""
    return _end(now, again=True)


def on_epoch_found(now: ZnodeElection, event: EpochFound) -> Step:
    """The controller of the epoch is read."""
    found = Leadership(event.epoch, event.version)
    return replace(now, state=PassState.READS_CONTROLLER, found=found), (ReadController(),)


def on_controller_failed(now: ZnodeElection, event: AnswerFailed) -> Step:
    """The pass ends with the epoch alone."""
    return _end(replace(now, epoch_version=now.found.version), again=event.again)


def on_controller_unreadable(now: ZnodeElection, event: ControllerUnreadable) -> Step:
    """The pass ends: the next change of the znode begins another one."""
    return _end(replace(now, epoch_version=now.found.version), again=False)


def on_controller_missing(now: ZnodeElection, event: ControllerMissing) -> Step:
    """No broker is controller. A registered broker is a candidate, another one hears of the next."""
    after, lost = _lose(now, "its znode is gone")
    found = now.found
    after = replace(after, epoch_version=found.version, known_epoch=found.epoch, is_kraft=False)
    after, known = _know(after, -1, None)
    if after.role is Role.OBSERVER:
        return replace(after, state=PassState.WATCHES_ABSENCE), (*lost, *known, WatchAbsence())
    return replace(after, state=PassState.CREATES_ZNODE), (*lost, *known, Stand(now.found))


def on_controller_found(now: ZnodeElection, event: ControllerFound) -> Step:
    """The controller is this broker, another one whose address is read, or a KRaft controller, under which
    brokers elect none."""
    now = replace(now, epoch_version=now.found.version)
    if event.is_kraft:
        return _on_kraft(now, event.controller)
    now = replace(now, is_kraft=False)
    if event.is_own:
        return _on_own(now, event.controller)
    after, lost = _lose(now, f"broker {event.controller} is controller")
    if event.controller != after.controller_id or after.endpoint is None:
        read = ReadRegistration(event.controller)
        return replace(after, state=PassState.READS_REGISTRATION), (*lost, read)
    return _end(replace(after, known_epoch=now.found.epoch), *lost, again=False)


def _on_kraft(now: ZnodeElection, controller: int) -> Step:
    after, lost = _lose(now, f"KRaft controller {controller} has taken over")
    after, known = _know(replace(after, is_kraft=True), controller, None)
    told = () if now.is_kraft else (AnnounceKraft(),)
    return _end(after, *lost, *known, *told, again=False)


def _on_own(now: ZnodeElection, controller: int) -> Step:
    """The answer to the election was lost, or a later epoch is this broker's as well."""
    after, known = _know(now, controller, now.own_endpoint)
    lost: Sequence[Effect] = ()
    won: Sequence[Effect] = ()
    if after.leadership != now.found:
        after, lost = _lose(after, f"epoch {now.found.epoch} has begun")
        after, won = _win(after, now.found)
    return _end(after, *known, *lost, *won, again=False)


def on_absence_watched(now: ZnodeElection, event: AbsenceWatched) -> Step:
    """The pass ends; another one follows where the znode has been made meanwhile."""
    return _end(now, again=event.appeared)


def on_registration(now: ZnodeElection, event: RegistrationRead) -> Step:
    """The broker is known as controller. Where it has no address, another pass follows."""
    now = replace(now, known_epoch=now.found.epoch)
    after, known = _know(now, event.controller, event.endpoint)
    return _end(after, *known, again=event.endpoint is None and event.connected)


def on_won(now: ZnodeElection, event: ElectionWon) -> Step:
    """This broker is controller. Another pass watches its znode."""
    leadership = Leadership(now.found.epoch + 1, event.version)
    after, known = _know(replace(now, epoch_version=event.version), now.node_id, now.own_endpoint)
    after, won = _win(after, leadership)
    after, begun = _read(after)
    return after, (*known, *won, *begun)


# -- the process of another controller -----------------------------------------------------------------


def on_connection_ended(now: ZnodeElection, event: ConnectionEnded | SuspicionDue) -> Step:
    """The controller's listener is asked whether it takes connections."""
    return _probe(now)


def stay(now: ZnodeElection, event: object) -> Step:
    """Nothing changes: it is being found out already."""
    return now, ()


def on_probed(now: ZnodeElection, event: Probed) -> Step:
    """A controller that lives is connected to again. The znode of one that is gone is removed, unless a later
    epoch has begun."""
    assert now.endpoint is not None
    if event.alive:
        return replace(now, presence=Presence.CONNECTED), (ConnectLater(event.watch),)
    gone = ReportGone(now.controller_id, now.endpoint)
    return replace(now, presence=Presence.REMOVED), (gone, Remove(event.version, event.watch))


def on_connection_due(now: ZnodeElection, event: ConnectionDue) -> Step:
    """A connection to the controller is kept."""
    assert now.endpoint is not None
    return now, (Connect(now.endpoint, now.watch),)


_ENDS = (PassState.IDLE, PassState.READS_EPOCH)
"""A pass ends, and the next one may begin at once."""
ANYWHERE: Mapping[type, Move] = MappingProxyType(
    {
        LookDue: Move(look, ()),
        Registered: Move(on_registered, ()),
        SessionEnded: Move(on_expired, ()),
        ControllerResigned: Move(on_resigned, ()),
    }
)
PASSES: Mapping[tuple[Enum, type], Move] = MappingProxyType(
    {
        (PassState.READS_EPOCH, EpochFound): Move(on_epoch_found, (PassState.READS_CONTROLLER,)),
        (PassState.READS_EPOCH, EpochMissing): Move(on_epoch_missing, (PassState.WRITES_EPOCH,)),
        (PassState.READS_EPOCH, EpochUnreadable): Move(
            on_epoch_unreadable, (PassState.WRITES_EPOCH, *_ENDS)
        ),
        (PassState.READS_EPOCH, AnswerFailed): Move(on_failed, _ENDS),
        (PassState.WRITES_EPOCH, EpochWritten): Move(on_epoch_written, _ENDS),
        (PassState.READS_CONTROLLER, ControllerMissing): Move(
            on_controller_missing, (PassState.CREATES_ZNODE, PassState.WATCHES_ABSENCE)
        ),
        (PassState.READS_CONTROLLER, ControllerFound): Move(
            on_controller_found, (PassState.READS_REGISTRATION, *_ENDS)
        ),
        (PassState.READS_CONTROLLER, ControllerUnreadable): Move(on_controller_unreadable, _ENDS),
        (PassState.READS_CONTROLLER, AnswerFailed): Move(on_controller_failed, _ENDS),
        (PassState.WATCHES_ABSENCE, AbsenceWatched): Move(on_absence_watched, _ENDS),
        (PassState.READS_REGISTRATION, RegistrationRead): Move(on_registration, _ENDS),
        (PassState.CREATES_ZNODE, ElectionWon): Move(on_won, (PassState.READS_EPOCH,)),
        (PassState.CREATES_ZNODE, AnswerFailed): Move(on_failed, _ENDS),
    }
)
_CONNECTED, _PROBED, _REMOVED = Presence.CONNECTED, Presence.PROBED, Presence.REMOVED
PRESENCES: Mapping[tuple[Enum, type], Move] = MappingProxyType(
    {
        (_CONNECTED, ConnectionEnded): Move(on_connection_ended, (_PROBED,)),
        (_CONNECTED, ConnectionDue): Move(on_connection_due, (_CONNECTED,)),
        (_PROBED, ConnectionEnded): Move(stay, (_PROBED,)),
        (_PROBED, ConnectionDue): Move(on_connection_due, (_PROBED,)),
        (_PROBED, Probed): Move(on_probed, (_CONNECTED, _REMOVED)),
        (_REMOVED, ConnectionEnded): Move(stay, (_REMOVED,)),
        (_REMOVED, ConnectionDue): Move(on_connection_due, (_REMOVED,)),
        (_REMOVED, SuspicionDue): Move(on_connection_ended, (_PROBED,)),
    }
)
