"""The console without a cluster: headers, hosts, sign-in, and forms from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.console.application import Console
from barnabas.console.guards import POLICY
from barnabas.console.settings import ConsoleSettings
from tests.unit.console.asgi import Answer, ask

NO_SERVER = "127.0.0.1:1"
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


def test_a_page_says_when_no_broker_answers(open_console: Console) -> None:
    answer = ask(open_console.application(), "/")
    assert answer.status == 502
    assert "The cluster does not answer" in answer.text


def test_a_page_that_does_not_exist_says_so(open_console: Console) -> None:
    answer = ask(open_console.application(), "/nothing")
    assert (answer.status, "There is no such page" in answer.text) == (404, True)


def test_the_cookie_is_kept_from_scripts(open_console: Console) -> None:
    cookie = ask(open_console.application(), "/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
