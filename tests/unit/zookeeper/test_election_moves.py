"""Elections of the controller in ZooKeeper mode, without a cluster: states, events, effects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.types import Endpoint
from barnabas.zookeeper.election import states as to
from barnabas.zookeeper.election.moves import PASSES, PRESENCES, UnknownMoveError, step
from barnabas.zookeeper.election.states import (
    ELECTION_RETRY_MS,
    MENDED_EPOCHS,
    Effect,
    Event,
    Leadership,
    PassState,
    Presence,
    Role,
    ZnodeElection,
)

OWN, OTHER = Endpoint("n1", 9092), Endpoint("n2", 9092)
FIRST = (to.LookDue(), to.EpochFound(4, 7))
"""A pass until `/controller` is read."""


def played(
    *events: Event, since: ZnodeElection | None = None
) -> tuple[ZnodeElection, list[Effect]]:
    """The state after `events`, and the effects of the last one."""
    now, effects = since or ZnodeElection(1, OWN), list[Effect]()
    for event in events:
        now, found = step(now, event)
        effects = list(found)
    return now, effects


def elected() -> ZnodeElection:
    registered = (to.Registered(connected=False), *FIRST)
    return played(*registered, to.ControllerMissing(), to.ElectionWon(8))[0]


def other_is_controller() -> ZnodeElection:
    found = to.ControllerFound(2, is_kraft=False, is_own=False)
    return played(*FIRST, found, to.RegistrationRead(2, OTHER, connected=True))[0]


def test_a_registered_broker_that_finds_no_controller_wins_the_next_epoch() -> None:
    now, effects = played(to.Registered(connected=True))
    assert (now.role, effects) == (Role.CANDIDATE, [to.ReadEpoch()])
    now, effects = played(to.EpochFound(4, 7), to.ControllerMissing(), since=now)
    assert (now.state, effects) == (PassState.CREATES_ZNODE, [to.Stand(Leadership(4, 7))])
    now, effects = played(to.ElectionWon(8), since=now)
    assert (now.role, now.leadership) == (Role.LEADER, Leadership(5, 8))
    assert [type(effect) for effect in effects] == [to.Forget, to.Announce, to.Win, to.ReadEpoch]


def test_a_broker_that_is_not_registered_is_no_candidate() -> None:
    now, effects = played(*FIRST, to.ControllerMissing())
    assert (now.state, effects) == (PassState.WATCHES_ABSENCE, [to.WatchAbsence()])
    now, effects = played(to.AbsenceWatched(appeared=False), since=now)
    assert (now.state, effects) == (PassState.IDLE, [])


def test_a_lost_answer_to_an_election_makes_no_second_controller() -> None:
    registered = (to.Registered(connected=True), to.EpochFound(4, 7), to.ControllerMissing())
    now, effects = played(*registered, to.AnswerFailed(again=True))
    assert effects == [to.LookLater(ELECTION_RETRY_MS)]
    own = to.ControllerFound(1, is_kraft=False, is_own=True)
    now, effects = played(to.LookDue(), to.EpochFound(5, 8), own, since=now)
    assert now.leadership == Leadership(5, 8)
    assert to.Win(Leadership(5, 8)) in effects and now.state is PassState.IDLE


def test_a_leadership_ends_with_its_session_its_znode_or_another_controller() -> None:
    leads = played(to.EpochFound(5, 8), since=elected())[0]
    other = to.ControllerFound(2, is_kraft=False, is_own=False)
    kraft = to.ControllerFound(100, is_kraft=True, is_own=False)
    for event in (
        to.SessionEnded(),
        to.ControllerResigned("why"),
        to.ControllerMissing(),
        other,
        kraft,
    ):
        now, effects = played(event, since=leads)
        assert (now.leadership, now.role) == (None, Role.CANDIDATE)
        assert sum(isinstance(effect, to.Lose) for effect in effects) == 1


def test_a_change_during_a_pass_begins_one_more_pass_after_it() -> None:
    now, effects = played(*FIRST, to.LookDue(), to.LookDue())
    assert (now.state, effects) == (PassState.READS_CONTROLLER, [])
    now, effects = played(to.ControllerUnreadable(), since=now)
    assert (now.state, effects) == (PassState.READS_EPOCH, [to.ReadEpoch()])
    assert not now.looks_again


def test_no_broker_is_elected_under_a_kraft_controller() -> None:
    kraft = to.ControllerFound(100, is_kraft=True, is_own=False)
    now, effects = played(to.Registered(connected=False), *FIRST, kraft)
    assert now.is_kraft and now.state is PassState.IDLE
    assert effects == [to.Forget(), to.Announce(100, None), to.AnnounceKraft()]


def test_an_epoch_that_cannot_be_read_is_mended_by_a_broker_that_has_obeyed_one() -> None:
    unreadable = to.EpochUnreadable(version=3, known=5)
    _, effects = played(to.LookDue(), unreadable)
    assert effects == [to.LookLater(to.MENDED_LOOK_MS)]
    now, effects = played(to.Registered(connected=True), unreadable)
    assert effects == [to.MendEpoch(5 + MENDED_EPOCHS, 3)]
    assert played(to.EpochWritten(), since=now)[1] == [to.LookLater(ELECTION_RETRY_MS)]


def test_the_znode_of_a_process_that_is_gone_is_removed_once() -> None:
    now = other_is_controller()
    assert now.presence is Presence.CONNECTED
    now, effects = played(to.ConnectionEnded(now.watch), since=now)
    assert effects == [to.Probe(OTHER, now.watch, 7)]
    now, effects = played(to.ConnectionEnded(now.watch), since=now)
    assert effects == []
    now, effects = played(to.Probed(now.watch, 7, alive=False), since=now)
    assert effects == [to.ReportGone(2, OTHER), to.Remove(7, now.watch)]
    now, effects = played(to.ConnectionEnded(now.watch), since=now)
    assert (now.presence, effects) == (Presence.REMOVED, [])
    now, effects = played(to.SuspicionDue(now.watch), since=now)
    assert (now.presence, effects) == (Presence.PROBED, [to.Probe(OTHER, now.watch, 7)])


def test_a_late_answer_about_a_former_controller_changes_nothing() -> None:
    now = other_is_controller()
    expired = played(to.SessionEnded(), since=now)[0]
    assert played(to.ConnectionEnded(now.watch), since=expired) == (expired, [])


def test_a_pair_of_state_and_event_that_no_table_has_is_a_bug() -> None:
    for event in (to.ElectionWon(1), to.EpochFound(1, 1), to.ControllerMissing()):
        with pytest.raises(UnknownMoveError):
            step(ZnodeElection(1, OWN), event)


def test_each_state_of_a_pass_and_of_a_presence_has_a_row() -> None:
    assert {state for state, _ in PASSES} == set(PassState) - {PassState.IDLE}
    assert {state for state, _ in PRESENCES} == set(Presence) - {Presence.UNWATCHED}
    reached = {state for move in (*PASSES.values(), *PRESENCES.values()) for state in move.to}
    assert reached >= {*set(PassState), *set(Presence)} - {Presence.UNWATCHED}


def test_states_that_contradict_themselves_are_found() -> None:
    leads = elected()
    for wrong in (
        replace(leads, role=Role.CANDIDATE),
        replace(leads, controller_id=2),
        replace(leads, is_kraft=True),
        replace(leads, presence=Presence.PROBED),
        replace(leads, state=PassState.IDLE, looks_again=True),
    ):
        with pytest.raises(AssertionError):
            wrong.validate()
