"""A request and a response, as the routes of the server see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


class HttpRequest(NamedTuple):
    """A GET or HEAD without a body. `path` has no query."""

    path: str
    accept: str
    """The header field ``Accept``; empty where there is none."""


class HttpResponse(NamedTuple):
    """The answer of a route."""

    status: HTTPStatus
    content_type: str
    body: Sequence[bytes]
    """Its parts, in their order."""


def problem(status: HTTPStatus, sentence: str) -> HttpResponse:
    """An error, as one sentence."""
    return HttpResponse(status, PLAIN, [f"{sentence}\n".encode()])


Respond = Callable[[HttpResponse], None]
Route = Callable[[HttpRequest, Respond], None]
"""Answers a request by calling `Respond` once, at once or in a later turn."""
