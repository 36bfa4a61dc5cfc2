"""Text scripts for the share sessions of one broker, which keeps three at most.

``=`` is an answer, ``-`` a session that ended. A partition is its number.
"""

from __future__ import annotations

from barnabas.broker.share.share_sessions import Member, ShareSession, ShareSessions
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.script_files import parts_of

TOPIC = Uuid(bytes(15) + b"\x01")
SESSIONS_MAX = 3


class SessionsScript:
    """The sessions, and the last that each member began."""

    def __init__(self) -> None:
        self.machine = ShareSessions(SESSIONS_MAX)
        self.last: dict[Member, ShareSession] = {}
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """One command; what it caused."""
        name, words, given = parts_of(line)
        self.lines = []
        try:
            getattr(self, f"do_{name}")(*words, **given)
        except KafkaError as error:
            self.lines.append(f"= {ErrorCode(error.code).name}: {error.message}")
        self.machine.validate()
        return self.lines

    # Commands

    def do_begin(self, member: str, connection: str) -> None:
        """``begin A connection=1``"""
        session = self.machine.begin(_member(member), int(connection))
        self.last[_member(member)] = session
        self.lines.append(f"= the next request has epoch {session.epoch}")

    def do_ask(self, member: str, epoch: str) -> None:
        """A request of the session."""
        session = self.machine.continue_from(_member(member), int(epoch))
        self.lines.append(f"= the next request has epoch {session.epoch}")

    def do_end(self, member: str) -> None:
        """The session that the member began last ends, if it is still there."""
        ended = self.machine.end(self.last[_member(member)])
        self.lines.append("- it ends" if ended else "= it had ended before")

    def do_close(self, connection: str) -> None:
        """A connection ends."""
        ended = self.machine.on_connection_closed(int(connection))
        self.lines += [f"- the session of {_name(session.member)} ends" for session in ended]

    def do_add(self, member: str, *partitions: str) -> None:
        self.last[_member(member)].update([(TOPIC, int(p)) for p in partitions], [])

    def do_forget(self, member: str, *partitions: str) -> None:
        self.last[_member(member)].update([], [(TOPIC, int(p)) for p in partitions])

    def do_answer(self, member: str, records: str = "", errors: str = "") -> None:
        """``answer A records=0,2 errors=1``: which partitions have records, and which an error."""
        session = self.last[_member(member)]
        named = [
            str(place[1])
            for place in list(session.places)
            if session.is_reported(
                place,
                records=str(place[1]) in records.split(","),
                error=str(place[1]) in errors.split(","),
            )
        ]
        self.lines.append(f"= it names {' '.join(named) or 'nothing'}")

    def do_show(self) -> None:
        for member, last in self.last.items():
            session = self.machine.get(member)
            if session is last:
                places = " ".join(str(partition) for _, partition in session.places)
                self.lines.append(f"= {_name(member)} fetches {places or 'nothing'}")
        self.lines.append(
            f"= {len(self.machine)} sessions, {self.machine.evictions} ended with a connection"
        )


def _member(text: str) -> Member:
    """``A``, or ``h/A`` of another group."""
    group, _, name = text.rpartition("/")
    return Member(group or "g", name)


def _name(member: Member) -> str:
    return member.member_id if member.group_id == "g" else "/".join(member)
