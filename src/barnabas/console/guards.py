"""Checks the host that every request names, and sets the headers of every answer.

The host is checked because a foreign page may point a name of its own at this address (DNS
rebinding). The content policy allows only files of this server, no inline script and no inline
style: a record's value that slipped through the escaping would not run.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
        "connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
    ]
)  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC = "/static/"


class Guards:
    """The middleware. `names` are the allowed hosts, without ports; ``*`` allows any."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                kept = scope["path"].startswith(STATIC)
                headers["Cache-Control"] = "max-age=300" if kept else "no-store"
            await send(message)

        app = self._app if self._is_known(scope) else NO_SUCH_HOST
        await app(scope, receive, send_with_headers)

    def _is_known(self, scope: Scope) -> bool:
        host = Headers(scope=scope).get("host", "").lower()
        name = (
            host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        )
        return "*" in self._names or name in self._names


NO_SUCH_HOST = PlainTextResponse(
    "this console does not serve that host name: see --host-name\n", status_code=421
)
