"""Sessions of share groups' members at one broker."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.share.share_sessions import Member, ShareSessions
from barnabas.replication.sessions import FINAL_EPOCH
from barnabas.wire.errors import ErrorCode, KafkaError

ANNE, BEN = Member("g", "anne"), Member("g", "ben")


def test_a_group_is_there_until_its_last_session_ends() -> None:
    sessions = ShareSessions(10)
    sessions.begin(ANNE, 1)
    sessions.begin(BEN, 2)
    sessions.begin(BEN, 2)
    sessions.remove(ANNE)
    sessions.remove(ANNE)
    assert sessions.has_group("g")
    assert [session.member for session in sessions.on_connection_closed(2)] == [BEN]
    assert not sessions.has_group("g")
    assert sessions.evictions == 1
    assert len(sessions) == 0


def test_the_end_of_an_earlier_session_leaves_the_members_newer_one() -> None:
    sessions = ShareSessions(10)
    earlier = sessions.begin(ANNE, 1)
    newer = sessions.begin(ANNE, 2)
    assert not sessions.end(earlier)
    assert sessions.get(ANNE) is newer
    assert sessions.end(newer)
    assert sessions.get(ANNE) is None and not sessions.end(newer)


def test_a_session_takes_requests_in_order() -> None:
    sessions = ShareSessions(10)
    session = sessions.begin(ANNE, 1)
    epoch = session.epoch
    assert sessions.continue_from(ANNE, epoch) is session
    for refused, code in (
        (epoch, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (epoch + 2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ):
        with pytest.raises(KafkaError) as error:
            sessions.continue_from(ANNE, refused)
        assert error.value.code == code
    assert sessions.continue_from(ANNE, FINAL_EPOCH) is session
    with pytest.raises(KafkaError) as error:
        sessions.continue_from(BEN, epoch)
    assert error.value.code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_sessions_are_bounded() -> None:
    sessions = ShareSessions(1)
    sessions.begin(ANNE, 1)
    with pytest.raises(KafkaError) as error:
        sessions.begin(BEN, 2)
    assert error.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.begin(ANNE, 3)
    assert sessions.on_connection_closed(1) == []


def test_indexes_have_exactly_the_sessions() -> None:
    """Members begin, end and lose sessions in any order."""
    rng, sessions = Random(1), ShareSessions(5)
    members = [Member(group, name) for group in ("g", "h") for name in ("anne", "ben", "cleo")]
    for _ in range(200):
        member, connection_id = rng.choice(members), rng.randrange(4)
        move = rng.randrange(4)
        if move == 0:
            sessions.on_connection_closed(connection_id)
        elif move == 1:
            sessions.remove(member)
        elif sessions.get(member) is not None or len(sessions) < 5:
            sessions.begin(member, connection_id)
        sessions.validate()


def test_a_session_that_no_index_has_is_noticed() -> None:
    sessions = ShareSessions(10)
    sessions.begin(ANNE, 1).connection_id = 2
    with pytest.raises(AssertionError):
        sessions.validate()
