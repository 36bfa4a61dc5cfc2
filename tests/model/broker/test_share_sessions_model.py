"""Share sessions do what a table of members would say.

A member has one session, on one connection. Requests of a session come in the order of their epochs; the end
of a connection ends its sessions, and the end of a session that its member has replaced ends nothing. An
answer names the partitions that were added, that have records, or whose error begins or ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.broker.share.share_sessions import Member, Place, ShareSession, ShareSessions
from barnabas.replication.sessions import FINAL_EPOCH
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.effort import examples

SESSIONS_MAX = 3
MEMBERS = st.sampled_from([Member(group, name) for group in "gh" for name in ("anne", "ben")])
CONNECTIONS = st.integers(1, 3)
TOPIC = Uuid(bytes(15) + b"\x01")
NUMBERS = st.integers(0, SESSIONS_MAX - 1)
PLACES = st.sets(st.tuples(st.just(TOPIC), st.integers(0, 3)), max_size=3)


@dataclass
class Known:
    """The model's session."""

    session: ShareSession
    connection_id: int
    epoch: int = 1
    new: dict[Place, bool] = field(default_factory=dict)
    """Its partitions, and whether the next answer names each."""


class Sessions(RuleBasedStateMachine):
    """Four members of two groups on three connections."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = ShareSessions(SESSIONS_MAX)
        self.known: dict[Member, Known] = {}
        self.replaced: list[ShareSession] = []
        self.evictions = 0
        self.begin(Member("g", "anne"), 1)
        self.begin(Member("h", "ben"), 2)

    @rule(member=MEMBERS, connection_id=CONNECTIONS)
    def begin(self, member: Member, connection_id: int) -> None:
        former = self.known.pop(member, None)
        if former is not None:
            self.replaced.append(former.session)
        try:
            session = self.machine.begin(member, connection_id)
        except KafkaError as error:
            assert error.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            assert len(self.known) == SESSIONS_MAX
            return
        assert len(self.known) < SESSIONS_MAX
        self.known[member] = Known(session, connection_id)

    def _session(self, number: int) -> Known | None:
        """One of those that there are."""
        return list(self.known.values())[number % len(self.known)] if self.known else None

    @rule(member=MEMBERS, step=st.sampled_from([-1, 0, 0, 0, 1]))
    def request(self, member: Member, step: int) -> None:
        known = self.known.get(member)
        epoch = (known.epoch if known is not None else 1) + step
        try:
            session = self.machine.continue_from(member, epoch)
        except KafkaError as error:
            if known is None:
                assert error.code == ErrorCode.SHARE_SESSION_NOT_FOUND
            else:
                assert error.code == ErrorCode.INVALID_SHARE_SESSION_EPOCH and step != 0
            return
        assert known is not None and known.session is session and step == 0
        known.epoch += 1

    @rule(member=MEMBERS, ends=st.booleans())
    def final_request(self, member: Member, ends: bool) -> None:
        """Its epoch is right in every session."""
        if member in self.known:
            assert self.machine.continue_from(member, FINAL_EPOCH) is self.known[member].session
            if ends:
                assert self.machine.end(self.known.pop(member).session)

    @rule()
    def an_earlier_session_ends(self) -> None:
        for session in self.replaced:
            assert not self.machine.end(session)

    @rule(number=NUMBERS, added=PLACES, forgotten=PLACES)
    def update(self, number: int, added: set[Place], forgotten: set[Place]) -> None:
        known = self._session(number)
        if known is not None:
            known.session.update(sorted(added), sorted(forgotten))
            for place in added:
                known.new.setdefault(place, True)
            for place in forgotten:
                known.new.pop(place, None)

    @rule(number=NUMBERS, records=PLACES, errors=PLACES)
    def answer(self, number: int, records: set[Place], errors: set[Place]) -> None:
        known = self._session(number)
        if known is None:
            return
        for place in list(known.session.places):
            has, fails = place in records, place in errors
            named = known.session.is_reported(place, records=has, error=fails)
            assert named == (has or fails or known.new[place])
            known.new[place] = fails
        last = list(known.session.places)[len(known.new) - len(records & known.new.keys()) :]
        assert set(last) == records & known.new.keys(), "the next fetch begins with the others"

    @precondition(lambda self: len(self.known) > 1)
    @rule(connection_id=CONNECTIONS)
    def close(self, connection_id: int) -> None:
        lost = {m: k for m, k in self.known.items() if k.connection_id == connection_id}
        ended = self.machine.on_connection_closed(connection_id)
        assert {session.member: session for session in ended} == {
            member: known.session for member, known in lost.items()
        }
        self.evictions += len(lost)
        for member in lost:
            del self.known[member]

    @invariant()
    def both_have_the_same_sessions(self) -> None:
        self.machine.validate()
        assert len(self.machine) == len(self.known)
        assert self.machine.evictions == self.evictions
        for member, known in self.known.items():
            assert self.machine.get(member) is known.session
            assert known.session.places.keys() == known.new.keys()
        for group_id in "gh":
            there = any(member.group_id == group_id for member in self.known)
            assert self.machine.has_group(group_id) == there


Sessions.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)
TestSessions = Sessions.TestCase
