"""The state that the log's entries make: owners, replays, snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.zookeeper.errors import (
    InvalidACL,
    MarshallingError,
    MultiFailed,
    NoAuth,
    NodeExists,
    SessionExpired,
    SessionMoved,
    Unimplemented,
)
from barnabas.zookeeper.operations import OPEN_ACL, Perms, ZnodeAcl
from barnabas.zookeeper.server.jute import NULL, JuteError, JuteReader, JuteWriter
from barnabas.zookeeper.server.log_entries import (
    Kind,
    LogEntry,
    Proposal,
    ProposalOrigin,
    decode_entry,
    encode_entry,
)
from barnabas.zookeeper.server.replicated_state import REPLAYED, ReplicatedState
from barnabas.zookeeper.server.requests import Op, write_acl
from barnabas.zookeeper.server.session_clock import SessionDeadlines
from barnabas.zookeeper.session import WatchEvent, WatchKind
from barnabas.zookeeper.znode_acls import digest_identity

HERE, THERE = ProposalOrigin(7, 1), ProposalOrigin(8, 1)
SESSION, PASSWORD = 0x100, b"p" * 16


class Log:
    """Entries as a leader makes them, on one state."""

    def __init__(self) -> None:
        self.state = ReplicatedState()
        self.entries: list[LogEntry] = []
        self.zxid = 1 << 32

    def do(self, kind: Kind, origin: ProposalOrigin = HERE, number: int = 0, **fields: Any) -> Any:
        self.zxid += 1
        proposal = Proposal(kind, fields.pop("session", SESSION), origin, number, **fields)
        entry = decode_entry(encode_entry(self.zxid, 1_000, proposal.encode()))
        self.entries.append(entry)
        applied = self.state.apply(entry)
        self.events = applied.events
        return applied.result

    def open(self) -> None:
        assert self.do(Kind.OPEN, HERE, 1, argument=5_000, body=PASSWORD) is None

    def create(self, number: int, path: str, origin: ProposalOrigin = HERE, **fields: Any) -> Any:
        body = create_body(path, fields.pop("acl", OPEN_ACL), fields.pop("flags", 0))
        return self.do(Kind.CHANGE, origin, number, argument=Op.CREATE2, body=body, **fields)


def create_body(path: str, acl: tuple[ZnodeAcl, ...] = OPEN_ACL, flags: int = 0) -> bytes:
    writer = JuteWriter().text(path).buffer(NULL)
    return write_acl(writer, acl).number(flags).bytes()


@pytest.fixture
def log() -> Log:
    log = Log()
    log.open()
    return log


def test_a_proposal_that_comes_twice_is_done_once(log: Log) -> None:
    assert log.create(2, "/a").path == "/a"
    assert log.create(2, "/a") is REPLAYED
    assert log.do(Kind.OPEN, HERE, 1, argument=5_000, body=PASSWORD) is REPLAYED
    assert isinstance(log.create(3, "/a"), NodeExists)


def test_a_move_ends_what_an_earlier_connection_proposed(log: Log) -> None:
    assert log.do(Kind.ATTACH, THERE, 1, body=PASSWORD) is None
    assert isinstance(log.create(2, "/late"), SessionMoved)
    assert log.create(2, "/a", THERE).path == "/a"
    assert log.state.tree.find("/late") is None


def test_a_wrong_password_moves_no_session(log: Log) -> None:
    assert isinstance(log.do(Kind.ATTACH, THERE, 1, body=b"q" * 16), SessionExpired)
    assert isinstance(log.do(Kind.ATTACH, THERE, 1, session=5, body=PASSWORD), SessionExpired)
    assert log.create(2, "/a").path == "/a"


def test_an_expired_session_ends_with_its_ephemerals(log: Log) -> None:
    log.create(2, "/e", flags=1)
    assert log.do(Kind.END, ProposalOrigin(0, 0)) is None
    assert WatchEvent(WatchKind.DELETED, "/e") in log.events
    assert isinstance(log.create(3, "/a"), SessionExpired)


def test_a_snapshot_and_a_replay_give_the_same_state(log: Log) -> None:
    acl = (ZnodeAcl(Perms.ALL, "auth", ""),)
    who = (digest_identity(b"u:p"),)
    log.create(2, "/a")
    log.create(3, "/a/b-", flags=3)
    log.create(4, "/mine", acl=acl, identities=who)
    log.do(Kind.OPEN, THERE, 1, session=5, argument=9_000, body=b"x" * 16)
    chunks = [list(chunk) for chunk in log.state.snapshot()]
    restored, replayed = ReplicatedState(), ReplicatedState()
    restored.restore(chunks)
    for entry in log.entries:
        replayed.apply(entry)
    for other in (restored, replayed):
        assert [list(chunk) for chunk in other.snapshot()] == chunks
        assert other.tree.get("/a").data is NULL
        assert other.tree.owned(SESSION) == ["/a/b-0000000000"]


def test_a_snapshot_that_is_cut_changes_nothing(log: Log) -> None:
    log.create(2, "/a")
    [chunk] = log.state.snapshot()
    other = ReplicatedState()
    with pytest.raises(JuteError):
        other.restore([[*chunk[:-1], bytes(chunk[-1])[:-1]]])
    assert not other.sessions and other.tree.find("/a") is None


def test_acls_are_enforced_by_what_the_connection_has_proved(log: Log) -> None:
    me, other = (digest_identity(b"u:p"),), (digest_identity(b"u:q"),)
    assert log.create(2, "/s", acl=(ZnodeAcl(Perms.ALL, "auth", ""),), identities=me)
    assert isinstance(log.create(3, "/s/x", identities=other), NoAuth)
    assert log.create(4, "/s/x", identities=me).path == "/s/x"
    assert log.state.tree.get_acl("/s", me).acl == (ZnodeAcl(31, *me[0]),)
    with pytest.raises(NoAuth):
        log.state.tree.get_acl("/s", other)
    for scheme, name in (
        ("sasl", "kafka"),
        ("x509", "CN=a"),
        ("digest", "u"),
        ("ip", "x"),
        ("auth", ""),
    ):
        assert isinstance(log.create(5, "/n", acl=(ZnodeAcl(31, scheme, name),)), InvalidACL)
        log.state.sessions[SESSION].number = 4
    assert log.create(5, "/ip", acl=(ZnodeAcl(31, "ip", "10.1.0.0/16"),))
    assert log.create(6, "/ip/a", identities=(("ip", "10.1.2.3"),)).path == "/ip/a"
    assert isinstance(log.create(7, "/ip/b", identities=(("ip", "10.2.2.3"),)), NoAuth)


def test_malformed_and_unserved_changes_result_in_errors(log: Log) -> None:
    assert isinstance(log.create(2, "/c", flags=4), Unimplemented)
    cut = create_body("/c")[:-1]
    result = log.do(Kind.CHANGE, HERE, 3, argument=Op.CREATE, body=cut)
    assert isinstance(result, MarshallingError)


def test_a_multi_that_fails_changes_nothing(log: Log) -> None:
    writer = JuteWriter()
    for path in ("/a", "/a"):
        writer.number(Op.CREATE).bool(False).number(-1).raw(create_body(path))
    body = writer.number(-1).bool(True).number(-1).bytes()
    result = log.do(Kind.CHANGE, HERE, 2, argument=Op.MULTI, body=body)
    assert isinstance(result, MultiFailed) and result.index == 1
    assert log.state.tree.find("/a") is None


def test_a_server_that_did_not_run_gives_the_time_back(log: Log) -> None:
    clock = SessionDeadlines()
    clock.begin(log.state.sessions, 0.0)
    assert clock.expired(100.0, 100.0) == []
    assert clock.expired(60_000.0, 100.0) == []
    assert clock.expired(60_100.0, 100.0) == []
    for now in range(60_200, 64_800, 100):
        assert clock.expired(float(now), 100.0) == []
    assert clock.expired(64_800.0, 100.0) == [SESSION]


def test_lengths_that_lie_are_refused() -> None:
    for data in (b"\0\0\0\5abc", b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff"):
        with pytest.raises(JuteError):
            JuteReader(data).buffer()
    with pytest.raises(JuteError):
        reader = JuteReader(b"\x7f\xff\xff\xff")
        reader.vector(reader.text)
