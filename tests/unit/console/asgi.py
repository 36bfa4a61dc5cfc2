"""Asks an ASGI application without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.types import ASGIApp


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def cookie(self) -> str:
        """The cookie that it sets, as a browser sends it back."""
        return self.headers.get("set-cookie", "").partition(";")[0]


def ask(
    app: ASGIApp,
    path: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """A GET, or with `form` a POST."""
    return asyncio.run(answered(app, path, form=form, headers=headers))


async def answered(
    app: ASGIApp,
    path: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """The same within a loop that may have other requests."""
    body = b"" if form is None else urlencode(form).encode()
    sent = {"host": "localhost", **(headers or {})}
    if form is not None:
        sent.setdefault("content-type", "application/x-www-form-urlencoded")
    where, _, query = path.partition("?")
    scope = {
        "type": "http", "method": "GET" if form is None else "POST",
        "path": where, "raw_path": where.encode(),
        "query_string": query.encode(), "root_path": "", "scheme": "http", "http_version": "1.1",
        "server": ("localhost", 80), "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }  # fmt: skip
    messages: list[dict[str, Any]] = []

    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:  # the client stays until it has its answer
            await asyncio.Event().wait()
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start = messages[0]
    text = b"".join(message.get("body", b"") for message in messages[1:]).decode()
    return Answer(
        start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, text
    )
