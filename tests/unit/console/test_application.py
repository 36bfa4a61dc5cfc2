"""The console without a cluster: headers, hosts, sign-in, and forms from elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from barnabas.console import application, sessions
from barnabas.console.application import STREAMS_MAX, Console
from barnabas.console.guards import POLICY
from barnabas.console.pages import PAGES
from barnabas.console.sessions import IDLE_S, BrowserSession, Sessions, UserView
from barnabas.console.settings import ConsoleSettings
from tests.unit.console.asgi import Answer, answered, ask
from tests.unit.console.fakes import AnsweringClient, Clock, ClosedUser

NO_SERVER = "127.0.0.1:1"
SIGN_IN = {"user": "me", "password": "x", "mechanism": "PLAIN", "to": "/"}
NEW_CLIENT = "barnabas.console.client_pool.ClientPool.new_client"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page does not wait seconds for a server that is not there."""
    monkeypatch.setattr("barnabas.console.client_pool.CALL_MS_MAX", 50.0)


@pytest.fixture
def open_console() -> Iterator[Console]:
    """Of a cluster that asks for no password, and does not answer."""
    console = Console(ConsoleSettings(NO_SERVER))
    yield console
    console.close()


@pytest.fixture
def sasl_console() -> Iterator[Console]:
    console = Console(ConsoleSettings(NO_SERVER, SASL))
    yield console
    console.close()


def assert_is_guarded(answer: Answer) -> None:
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


def test_the_policy_allows_no_inline_script_and_no_other_server() -> None:
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert "*" not in POLICY


@pytest.mark.parametrize("path", ["/sign-in", "/static/console.js", "/no/such/page"])
def test_every_answer_carries_the_policy(sasl_console: Console, path: str) -> None:
    assert_is_guarded(ask(sasl_console.application(), path))


def test_no_page_has_inline_script_or_style(sasl_console: Console) -> None:
    page = ask(sasl_console.application(), "/sign-in").text
    assert "<script>" not in page
    assert "style=" not in page
    assert "onclick" not in page


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "localhost.evil.example"])
def test_a_host_that_the_console_does_not_serve_is_refused(
    sasl_console: Console, host: str
) -> None:
    answer = ask(sasl_console.application(), "/sign-in", headers={"host": host})
    assert answer.status == 421
    assert_is_guarded(answer)


@pytest.mark.parametrize("host", ["127.0.0.1:8180", "[::1]:8180", "LOCALHOST"])
def test_the_names_of_this_machine_are_served(sasl_console: Console, host: str) -> None:
    assert ask(sasl_console.application(), "/sign-in", headers={"host": host}).status == 200


def test_a_visitor_who_has_not_signed_in_is_sent_to_the_sign_in(sasl_console: Console) -> None:
    answer = ask(sasl_console.application(), "/events?about=a%26b")
    assert answer.status == 303
    assert answer.headers["location"] == "/sign-in?to=%2Fevents%3Fabout%3Da%2526b"


def test_a_live_stream_needs_a_session(sasl_console: Console) -> None:
    assert ask(sasl_console.application(), "/live/events").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:99"},
        {"origin": "http://["},
        {"origin": "localhost"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_a_sign_in_from_another_page_is_refused(
    sasl_console: Console, headers: dict[str, str]
) -> None:
    form = {"user": "me", "password": "x", "mechanism": "PLAIN", "to": "/"}
    answer = ask(sasl_console.application(), "/sign-in", form=form, headers=headers)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.slow
def test_a_sign_in_that_no_server_confirms_opens_no_session(sasl_console: Console) -> None:
    form = {"user": "<b>me", "password": "secret", "mechanism": "PLAIN", "to": "/"}
    answer = ask(sasl_console.application(), "/sign-in", form=form)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert "&lt;b&gt;me" in answer.text
    assert "secret" not in answer.text


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "x"])
def test_a_sign_in_never_leads_to_another_server(sasl_console: Console, to: str) -> None:
    page = ask(sasl_console.application(), f"/sign-in?to={to}").text
    assert 'name="to" value="/"' in page


def test_variables_in_a_users_words_are_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_CONSOLE", "secret")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    properties = {**SASL, "config.providers": "env", "config.providers.env.class": provider}
    settings = ConsoleSettings(NO_SERVER, properties)
    found = settings.security_of_user("${env:OF_THE_CONSOLE}", "${env:OF_THE_CONSOLE}", "PLAIN")
    assert found.sasl is not None
    assert "secret" not in f"{found.sasl!r}{vars_of(found.sasl)}"


def vars_of(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in getattr(value, "__slots__", ())}


@pytest.mark.slow
def test_a_page_says_when_no_broker_answers(open_console: Console) -> None:
    answer = ask(open_console.application(), "/")
    assert answer.status == 502
    assert "The cluster does not answer" in answer.text


def test_a_page_that_does_not_exist_says_so(open_console: Console) -> None:
    answer = ask(open_console.application(), "/nothing")
    assert (answer.status, "There is no such page" in answer.text) == (404, True)


@pytest.mark.slow
def test_the_cookie_is_kept_from_scripts(open_console: Console) -> None:
    cookie = ask(open_console.application(), "/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def signed_in(console: Console, user: ClosedUser) -> tuple[BrowserSession, dict[str, str]]:
    """A session, and the header that a browser sends with it."""
    session = console.sessions.open(cast(UserView, user), owns_user=True)
    return session, {"cookie": f"{console.cookie}={console.sessions.cookie_of(session)}"}


@pytest.mark.slow
def test_pages_that_do_not_exist_open_no_session_and_end_none(
    monkeypatch: pytest.MonkeyPatch, open_console: Console
) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 1)
    app = open_console.application()
    cookie = ask(app, "/").cookie.partition("=")[2]
    assert "set-cookie" not in ask(app, "/nothing").headers
    assert open_console.sessions.find(cookie) is not None


@pytest.mark.slow
def test_the_cookie_of_a_console_has_its_port_in_its_name() -> None:
    console = Console(ConsoleSettings(NO_SERVER, port=8180))
    cookie = ask(console.application(), "/").cookie
    console.close()
    assert cookie.startswith("barnabas_console_8180=")


@pytest.mark.parametrize("form", [{}, {"token": "x"}])
def test_a_sign_out_without_the_token_changes_nothing(
    sasl_console: Console, form: dict[str, str]
) -> None:
    user = ClosedUser()
    session, headers = signed_in(sasl_console, user)
    answer = ask(sasl_console.application(), "/sign-out", form=form, headers=headers)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    assert user.closed == 0
    assert sasl_console.sessions.find(sasl_console.sessions.cookie_of(session)) is session


def test_a_sign_out_ends_the_session_and_its_cookie(sasl_console: Console) -> None:
    user = ClosedUser()
    session, headers = signed_in(sasl_console, user)
    form = {"token": session.token}
    answer = ask(sasl_console.application(), "/sign-out", form=form, headers=headers)
    assert (answer.status, user.closed) == (303, 1)
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert answer.cookie.startswith(f"{sasl_console.cookie}=")


def test_a_new_sign_in_ends_the_former_session_of_its_browser(
    monkeypatch: pytest.MonkeyPatch, sasl_console: Console
) -> None:
    monkeypatch.setattr(NEW_CLIENT, lambda _: AnsweringClient())
    user, other = ClosedUser(), ClosedUser()
    _, headers = signed_in(sasl_console, user)
    signed_in(sasl_console, other)
    answer = ask(sasl_console.application(), "/sign-in", form=SIGN_IN, headers=headers)
    assert (answer.status, user.closed, other.closed) == (303, 1, 0)
    assert sasl_console.sessions.find(answer.cookie.partition("=")[2]) is not None


@pytest.mark.slow
def test_a_sign_in_that_is_refused_leaves_the_former_session(sasl_console: Console) -> None:
    user = ClosedUser()
    _, headers = signed_in(sasl_console, user)
    answer = ask(sasl_console.application(), "/sign-in", form=SIGN_IN, headers=headers)
    assert (answer.status, user.closed) == (401, 0)


class CountedClient(AnsweringClient):
    """Counts how many of its kind are asked at a time."""

    now, most = 0, 0

    def call(self, asked: Any) -> Any:
        CountedClient.now += 1
        CountedClient.most = max(CountedClient.most, CountedClient.now)
        time.sleep(0.02)
        CountedClient.now -= 1


@pytest.mark.slow
def test_sign_ins_ask_the_cluster_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NEW_CLIENT, lambda _: CountedClient())
    monkeypatch.setattr(application, "SIGN_INS_MAX", 1)
    console = Console(ConsoleSettings(NO_SERVER, SASL))
    app = console.application()

    async def sign_in_together() -> list[Answer]:
        return await asyncio.gather(*(answered(app, "/sign-in", form=SIGN_IN) for _ in range(6)))

    answers = asyncio.run(sign_in_together())
    console.close()
    assert [answer.status for answer in answers] == [303] * 6
    assert CountedClient.most == 1


def test_a_session_has_a_few_live_pages_at_most(sasl_console: Console) -> None:
    session, headers = signed_in(sasl_console, ClosedUser())
    session.streams = STREAMS_MAX
    assert ask(sasl_console.application(), "/live/events", headers=headers).status == 429


def test_a_live_page_alone_does_not_keep_its_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = tuple(replace(page, live_ms=1) for page in PAGES)
    monkeypatch.setattr(application, "PAGES", pages)
    monkeypatch.setattr("barnabas.console.client_pool.CALL_MS_MAX", 1.0)
    console = Console(ConsoleSettings(NO_SERVER))
    clock = Clock(step_s=1_000)
    console.sessions = Sessions(clock)
    app = console.application()
    cookie = ask(app, "/").cookie
    opened_s = clock.now_s
    answer = ask(app, "/live/groups", headers={"cookie": cookie})
    console.close()
    assert answer.text.endswith("event: over\ndata: {}\n\n")
    assert clock.now_s - opened_s <= IDLE_S + 1_000
