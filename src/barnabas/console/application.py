"""The console as an ASGI application: routes, sign-in, pages, and their live streams.

Pages are loaded in threads, since a client blocks. A page that is open in a browser may ask for a stream
(server-sent events): the server loads the page again and again, and sends its parts when they changed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from barnabas import __version__
from barnabas.client.network.connection import ChannelError
from barnabas.console.client_pool import ClientPool
from barnabas.console.cluster_views.parts import EXPECTED, FORBIDDEN, explained
from barnabas.console.commands import command_line
from barnabas.console.guards import Guards
from barnabas.console.pages import PAGES
from barnabas.console.pages.page import Page, PageRequest
from barnabas.console.rendering import Renderer, link
from barnabas.console.sessions import LIFE_S, BrowserSession, Sessions, UserView, cookie_name
from barnabas.console.settings import LOOPBACK, ConsoleSettings
from barnabas.security.jaas import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.wire.errors import KafkaError

MECHANISMS = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN)
BODY_BYTES_MAX = 2 * 1024 * 1024
FOREIGN_FORM = "This form was not sent by the console's own page: nothing was changed."
ENDING_CHECK_S = 0.25
STREAMS_MAX = 5
"""Live pages of one session. A browser opens six connections to a host: one stays for its other requests."""
SIGN_INS_MAX = 4
"""Sign-ins that ask the cluster at a time; more of them wait, and take no thread from the pages."""
NAVIGATION = (
    ("cluster", "Cluster", "/", "c"),
    ("events", "Events", "/events", "e"),
    ("topics", "Topics", "/topics", "t"),
    ("groups", "Groups", "/groups", "r"),
    ("configs", "Configurations", "/configs", "o"),
    ("transactions", "Transactions", "/transactions", "x"),
    ("moves", "Reassignments", "/moves", "m"),
    ("security", "Security", "/users", "s"),
    ("pipelines", "Pipelines", "/pipelines", "p"),
)
"""Section, name, address and key of each entry."""
PRINCIPALS = {"PLAINTEXT": "everyone", "SSL": "the console's certificate"}
"""The visitor's identity on a listener without sign-in."""


class Console:
    """The application's state and its endpoints."""

    def __init__(self, settings: ConsoleSettings) -> None:
        """Raises ``ConfigError``, ``ValueError`` for settings that cannot work."""
        self.settings = settings
        self.sessions = Sessions()
        self.cookie = cookie_name(settings.port)
        self.ending = False
        """Set at the end of the process: live pages end."""
        self._renderer = Renderer(
            {
                "version": __version__,
                "read_only": settings.read_only,
                "command_line": command_line,
                "navigation": NAVIGATION,
                "can_sign_out": settings.needs_sign_in,
            }
        )
        self._sign_ins = CapacityLimiter(SIGN_INS_MAX)
        self._shared_view: UserView | None = None
        if not settings.needs_sign_in:
            principal = PRINCIPALS.get(settings.protocol, "the configured user")
            pool = ClientPool(settings.bootstrap, settings.security())
            self._shared_view = UserView(principal, pool)

    def application(self) -> Starlette:
        pages = [Route(page.path, self._endpoint(page)) for page in PAGES]
        live = [Route(f"/live{page.path}", self._stream(page)) for page in PAGES if page.live_ms]
        changes = [
            Route(page.path, self._change(page), methods=["POST"]) for page in PAGES if page.change
        ]
        routes = [
            *pages,
            *changes,
            *live,
            Route("/sign-in", self.sign_in_page, methods=["GET"]),
            Route("/sign-in", self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Mount("/static", StaticFiles(packages=[("barnabas.console", "static")])),
            Route("/{path:path}", self.no_such_page),
        ]
        settings = self.settings
        names = {settings.host, *settings.names, *(LOOPBACK if settings.is_local else ())}
        return Starlette(routes=routes, middleware=[Middleware(Guards, names=names)])

    def close(self) -> None:
        """End all sessions and their clients."""
        self.sessions.close()
        if self._shared_view is not None:
            self._shared_view.close()

    # -- sessions ----------------------------------------------------------------------------------

    def _found(self, request: Request, *, uses: bool = True) -> BrowserSession | None:
        """The session that the visitor has; with `uses` it counts as used now."""
        return self.sessions.find(request.cookies.get(self.cookie, ""), uses=uses)

    def _session(self, request: Request) -> BrowserSession | None:
        """The visitor's session. Without sign-in a new visitor gets a new one."""
        found = self._found(request)
        if found is None and self._shared_view is not None:
            found = self.sessions.open(self._shared_view, owns_user=False)
        return found

    def _keep(self, response: Response, session: BrowserSession) -> Response:
        response.set_cookie(
            self.cookie,
            self.sessions.cookie_of(session),
            max_age=LIFE_S,
            httponly=True,
            samesite="lax",
            secure=bool(self.settings.certificate),
        )
        return response

    async def sign_in_page(self, request: Request) -> Response:
        if self._shared_view is not None:
            return RedirectResponse("/", 303)
        return self._sign_in_form(_local(request.query_params.get("to", "")))

    def _sign_in_form(self, to: str, user: str = "", problem: str = "") -> Response:
        chosen = self.settings.properties.get("sasl.mechanism", "").strip().upper()
        values = {
            "to": to, "user": user, "problem": problem, "mechanisms": MECHANISMS,
            "mechanism": chosen if chosen in MECHANISMS else MECHANISMS[0],
            "bootstrap": self.settings.bootstrap,
        }  # fmt: skip
        text = self._renderer.render("sign-in.html", values)
        return HTMLResponse(text, 401 if problem else 200)

    async def sign_in(self, request: Request) -> Response:
        form = await read_form(request)
        if not is_same_origin(request) or form is None:
            return self._refusal(None, FOREIGN_FORM, 403)
        to, user = _local(form.get("to", "")), form.get("user", "")
        mechanism = form.get("mechanism", "")
        if mechanism not in MECHANISMS or not user:
            return self._sign_in_form(to, user, "Give a user, a password and a mechanism.")
        try:
            view = await to_thread.run_sync(
                self._checked_user,
                user,
                form.get("password", ""),
                mechanism,
                limiter=self._sign_ins,
            )
        except EXPECTED as error:
            return self._sign_in_form(to, user, _why_refused(error))
        former = self._found(request)
        if former is not None:
            await run_in_threadpool(self.sessions.end, former)
        session = self.sessions.open(view, owns_user=True)
        return self._keep(RedirectResponse(to, 303), session)

    def _checked_user(self, user: str, password: str, mechanism: str) -> UserView:
        """A user whom the cluster has let in. Raises what asking a cluster raises."""
        security = self.settings.security_of_user(user, password, mechanism)
        pool = ClientPool(self.settings.bootstrap, security)
        try:
            with pool.client() as client:
                client.call(client.client.cluster.refresh(timeout_ms=5_000.0))
        except BaseException:
            pool.close()
            raise
        return UserView(f"User:{user}", pool)

    async def sign_out(self, request: Request) -> Response:
        session, form = self._found(request), await read_form(request)
        if session is None:
            return RedirectResponse("/sign-in", 303)
        if not _is_own_form(request, session, form):
            return self._refusal(session, FOREIGN_FORM, 403)
        await run_in_threadpool(self.sessions.end, session)
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(self.cookie)
        return response

    # -- pages -------------------------------------------------------------------------------------

    def _endpoint(self, page: Page) -> Any:
        async def show(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                to = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                return RedirectResponse(link("/sign-in", to=to), 303)
            status, text = await run_in_threadpool(self._page, page, request, session, "frame.html")
            return self._keep(HTMLResponse(text, status), session)

        return show

    def _page(
        self, page: Page, request: Request, session: BrowserSession, frame: str
    ) -> tuple[int, str]:
        """The status and text of a page, or of the sentence that says why it cannot be shown."""
        values = {
            "frame": frame,
            "section": page.section,
            "session": session,
            "principal": session.user.principal,
            "live": page.live_ms > 0,
            "path": request.url.path,
            "query": request.query_params,
            "done": request.query_params.get("done", ""),
        }
        try:
            with session.user.pool.client() as connected:
                asked = PageRequest(connected, session.user, request.query_params, self.settings)
                values.update(page.load(asked))
                values["asked"] = asked
                return 200, self._renderer.render(page.template, values)
        except EXPECTED as error:
            values["problem"] = explained(error)
            return status_of(error), self._renderer.render("problem.html", values)

    def _change(self, page: Page) -> Any:
        async def post(request: Request) -> Response:
            session = self._found(request)
            if session is None:
                return self._refusal(None, "Your session is over: sign in again.", 401)
            form = await read_form(request)
            if not _is_own_form(request, session, form):
                return self._refusal(session, FOREIGN_FORM, 403)
            assert form is not None
            if self.settings.read_only:
                return self._refusal(session, "This console is read-only.", 403)
            try:
                to = await run_in_threadpool(self._changed, page, request, session, form)
            except EXPECTED as error:
                return self._refusal(session, explained(error), status_of(error))
            return RedirectResponse(to, 303)

        return post

    def _changed(
        self, page: Page, request: Request, session: BrowserSession, form: Mapping[str, str]
    ) -> str:
        """Make the change of a page by its address and its form, and return the address to go
        to."""
        assert page.change is not None
        with session.user.pool.client() as connected:
            query = request.query_params
            return page.change(PageRequest(connected, session.user, query, self.settings, form))

    def _refusal(self, session: BrowserSession | None, problem: str, status: int) -> Response:
        values: dict[str, Any] = {
            "frame": "frame.html", "section": "", "session": session, "problem": problem, "live": False,
            "principal": session.user.principal if session is not None else "", "done": "", "query": {},
        }  # fmt: skip
        return HTMLResponse(self._renderer.render("problem.html", values), status)

    async def no_such_page(self, request: Request) -> Response:
        session = self._found(request)
        if session is None and self._shared_view is None:
            return RedirectResponse("/sign-in", 303)
        return self._refusal(session, "There is no such page.", 404)

    # -- live --------------------------------------------------------------------------------------

    def _stream(self, page: Page) -> Any:
        async def stream(request: Request) -> Response:
            session = self._found(request, uses=False)
            if session is None:
                return PlainTextResponse("sign in first\n", 401)
            if session.streams >= STREAMS_MAX:
                return PlainTextResponse("too many live pages are open\n", 429)
            parts = self._changed_parts(page, request, session)
            headers = {"X-Accel-Buffering": "no"}
            return StreamingResponse(parts, media_type="text/event-stream", headers=headers)

        return stream

    async def _changed_parts(
        self, page: Page, request: Request, session: BrowserSession
    ) -> AsyncIterator[str]:
        """Events with the page's parts, whenever they differ from those sent before."""
        session.streams += 1
        sent = ""
        try:
            while not self.ending and not await request.is_disconnected():
                if self._found(request, uses=False) is None:
                    yield "event: over\ndata: {}\n\n"
                    return
                status, text = await run_in_threadpool(
                    self._page, page, request, session, "fragment.html"
                )
                if text != sent:
                    sent = text
                    yield f"data: {json.dumps({'status': status, 'html': text})}\n\n"
                else:
                    yield ": nothing changed\n\n"
                await self._pause(page.live_ms / 1000)
        finally:
            session.streams -= 1

    async def _pause(self, seconds: float) -> None:
        """Sleep, but end early with the process."""
        while seconds > 0 and not self.ending:
            await asyncio.sleep(min(seconds, ENDING_CHECK_S))
            seconds -= ENDING_CHECK_S


def build(settings: ConsoleSettings) -> tuple[Starlette, Console]:
    """The application and its state. Raises ``ConfigError``, ``ValueError``."""
    console = Console(settings)
    return console.application(), console


async def read_form(request: Request) -> Mapping[str, str] | None:
    """The fields of a form; None where it is too large or of another kind."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            return None
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=1_000))
    except ValueError:
        return None


def is_same_origin(request: Request) -> bool:
    """Whether a browser says that the console's own page sent this; a client that says nothing is no
    browser."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host", ""):
        return False
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _is_own_form(request: Request, session: BrowserSession, form: Mapping[str, str] | None) -> bool:
    """Whether the console's own page sent this form, with the session's token."""
    if form is None or not is_same_origin(request):
        return False
    return session.accepts(form.get("token", ""))


def status_of(error: Exception) -> int:
    """The HTTP status of a page that fails with `error`."""
    if isinstance(error, ChannelError):
        return 502
    if isinstance(error, KafkaError):
        return 403 if error.code in FORBIDDEN else 409
    return 400


def _local(to: str) -> str:
    """The address to go to after the sign-in. A foreign address is replaced by the first page."""
    is_path = to.startswith("/") and not to.startswith(("//", "/\\")) and "\\" not in to
    return to if is_path and to.isprintable() else "/"


def _why_refused(error: Exception) -> str:
    if isinstance(error, ChannelError) and error.kind == "authentication":
        return f"The cluster refuses this user: {error.message}"
    return explained(error)
