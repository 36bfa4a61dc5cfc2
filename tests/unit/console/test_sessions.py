"""Sessions: signed cookies, their ends, and the token of a change."""

from __future__ import annotations

from typing import cast

from barnabas.console.sessions import (
    IDLE_S,
    LIFE_S,
    SESSIONS_MAX,
    BrowserSession,
    Sessions,
    UserView,
    cookie_name,
)
from tests.unit.console.fakes import Clock, ClosedUser


def opened(sessions: Sessions, user: ClosedUser | None = None) -> BrowserSession:
    return sessions.open(cast(UserView, user or ClosedUser()), owns_user=True)


def test_a_cookie_names_its_session() -> None:
    sessions = Sessions()
    session = opened(sessions)
    assert sessions.find(sessions.cookie_of(session)) is session


def test_a_cookie_that_was_changed_names_nothing() -> None:
    sessions = Sessions()
    cookie = sessions.cookie_of(opened(sessions))
    name, end, signature = cookie.split(".")
    for forged in (
        "", ".", "..", f"{name}.{int(end) + 1}.{signature}", f"{name}.{end}.{signature[:-1]}0x",
        f"{name}.{end}.", f"x{name}.{end}.{signature}", "é\ud800.1.2",
    ):  # fmt: skip
        assert sessions.find(forged) is None


def test_a_cookie_of_another_process_names_nothing() -> None:
    one, other = Sessions(), Sessions()
    assert other.find(one.cookie_of(opened(one))) is None


def test_a_session_ends_when_it_was_not_used_for_long() -> None:
    clock, user = Clock(), ClosedUser()
    sessions = Sessions(clock)
    cookie = sessions.cookie_of(opened(sessions, user))
    clock.now_s += IDLE_S - 1
    assert sessions.find(cookie) is not None
    clock.now_s += IDLE_S
    assert sessions.find(cookie) is None
    assert user.closed == 1


def test_a_session_ends_after_its_life_however_it_is_used() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    cookie = sessions.cookie_of(opened(sessions))
    for _ in range(0, LIFE_S, 3_000):
        clock.now_s += 3_000
        sessions.find(cookie)
    assert sessions.find(cookie) is None


def test_the_session_that_was_used_longest_ago_makes_room() -> None:
    clock, first = Clock(), ClosedUser()
    sessions = Sessions(clock)
    cookies = [sessions.cookie_of(opened(sessions, first))]
    for _ in range(SESSIONS_MAX):
        clock.now_s += 1
        cookies.append(sessions.cookie_of(opened(sessions)))
    assert sessions.find(cookies[0]) is None
    assert first.closed == 1
    assert all(sessions.find(cookie) for cookie in cookies[1:])


def test_a_session_accepts_its_own_token_only() -> None:
    sessions = Sessions()
    one, other = opened(sessions), opened(sessions)
    assert one.accepts(one.token)
    assert not one.accepts(other.token)
    assert not one.accepts("")
    assert not one.accepts("\ud800")


def test_a_session_that_is_ended_closes_the_clients_of_its_user() -> None:
    user, sessions = ClosedUser(), Sessions()
    session = opened(sessions, user)
    sessions.end(session)
    assert user.closed == 1
    assert sessions.find(sessions.cookie_of(session)) is None


def test_a_session_that_a_live_page_shows_makes_room_last() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    watched = opened(sessions)
    watched.streams = 1
    clock.now_s += 1
    unwatched = sessions.cookie_of(opened(sessions))
    for _ in range(SESSIONS_MAX):
        clock.now_s += 1
        opened(sessions)
    assert sessions.find(sessions.cookie_of(watched)) is watched
    assert sessions.find(unwatched) is None


def test_a_session_that_is_only_looked_up_is_not_used() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    cookie = sessions.cookie_of(opened(sessions))
    clock.now_s += IDLE_S - 1
    assert sessions.find(cookie, uses=False) is not None
    clock.now_s += 1
    assert sessions.find(cookie, uses=False) is None


def test_the_cookies_of_two_consoles_of_one_host_have_different_names() -> None:
    assert cookie_name(8180) != cookie_name(8181)
