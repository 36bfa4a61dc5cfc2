"""A change needs the session's token, an own page, and a console that is not read-only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from barnabas.console import application
from barnabas.console.application import Console
from barnabas.console.pages import PAGES
from barnabas.console.pages.page import PageRequest
from barnabas.console.settings import ConsoleSettings
from tests.unit.console.asgi import Answer, ask

PATH = "/group/reset?id=g&way=to-latest"
CHANGES = [page for page in PAGES if page.change is not None]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of changes that were made."""
    found: list[str] = []

    def note(asked: PageRequest) -> str:
        found.append(str(asked.query))
        return "/group?id=g"

    pages = tuple(replace(page, change=note) if page.change else page for page in PAGES)
    monkeypatch.setattr(application, "PAGES", pages)
    monkeypatch.setattr("barnabas.console.client_pool.CALL_MS_MAX", 50.0)
    return found


@pytest.fixture
def console(made: list[str]) -> Iterator[Console]:
    opened = Console(ConsoleSettings("127.0.0.1:1"))
    yield opened
    opened.close()


def posted(console: Console, token: str | None, cookie: str, **headers: str) -> Answer:
    form = {} if token is None else {"token": token}
    sent = {"cookie": cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return ask(console.application(), PATH, form=form, headers=sent)


def visitor(console: Console) -> tuple[str, str]:
    """A new visitor's cookie and token."""
    cookie = ask(console.application(), "/").cookie
    session = console.sessions.find(cookie.partition("=")[2])
    assert session is not None
    return cookie, session.token


@pytest.mark.slow
def test_a_change_with_the_token_of_its_session_is_made(console: Console, made: list[str]) -> None:
    cookie, token = visitor(console)
    answer = posted(console, token, cookie)
    assert (answer.status, answer.headers["location"]) == (303, "/group?id=g")
    assert made == ["id=g&way=to-latest"]


@pytest.mark.slow
def test_a_change_without_its_token_is_refused(console: Console, made: list[str]) -> None:
    cookie, _ = visitor(console)
    _, of_another = visitor(console)
    for token in (None, "", "x", of_another):
        assert posted(console, token, cookie).status == 403
    assert made == []


@pytest.mark.slow
def test_a_change_without_a_session_is_refused(console: Console, made: list[str]) -> None:
    _, token = visitor(console)
    assert posted(console, token, "").status == 401
    assert made == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"content_type": "text/plain"},
        {"content_type": "multipart/form-data; boundary=x"},
    ],
)
def test_a_change_from_another_page_is_refused(
    console: Console, made: list[str], headers: dict[str, str]
) -> None:
    cookie, token = visitor(console)
    assert posted(console, token, cookie, **headers).status == 403
    assert made == []


@pytest.mark.slow
def test_a_console_that_is_read_only_makes_no_change(made: list[str]) -> None:
    console = Console(ConsoleSettings("127.0.0.1:1", read_only=True))
    cookie, token = visitor(console)
    answer = posted(console, token, cookie)
    console.close()
    assert (answer.status, made) == (403, [])
    assert "read-only" in answer.text


@pytest.mark.slow
def test_a_page_that_makes_no_change_takes_no_form(console: Console) -> None:
    cookie, token = visitor(console)
    answer = ask(
        console.application(), "/topics", form={"token": token}, headers={"cookie": cookie}
    )
    assert answer.status in (404, 405)


def test_there_is_a_change_to_refuse() -> None:
    assert CHANGES
