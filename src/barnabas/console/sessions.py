"""The sessions of signed-in users, in memory, named by a cookie that this process has signed.

The cookie has a random id, the second at which it ends, and a signature over both by a key that lives as long
as the process; its name has the console's port. A session holds its user's clients and the token that every
change must carry (CSRF).
Passwords stay in the clients' settings, and end with the session.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

from barnabas.console.client_pool import ClientPool
from barnabas.console.cluster_views.event_feed import EventFeed
from barnabas.console.cluster_views.histories import Histories

LIFE_S = 12 * 3600
IDLE_S = 2 * 3600
SESSIONS_MAX = 200


def cookie_name(port: int) -> str:
    """The name of the cookie of the console at `port`: browsers keep one jar for all ports of a host."""
    return f"barnabas_console_{port}"


class UserView:
    """The clients of one sign-in, which its sessions share, and what was read by them."""

    def __init__(self, principal: str, pool: ClientPool) -> None:
        self.principal = principal
        self.pool = pool
        self.events = EventFeed(pool.new_client)
        self.histories = Histories()

    def close(self) -> None:
        self.pool.close()
        self.events.close()


class BrowserSession:
    """One browser."""

    def __init__(self, name: str, user: UserView, ends_at: float, *, owns_user: bool) -> None:
        self.name = name
        self.user = user
        self.ends_at = ends_at
        self.token = secrets.token_urlsafe(32)
        self.used_at = 0.0
        self.streams = 0
        """Live pages that are open."""
        self._owns_user = owns_user

    def accepts(self, token: str) -> bool:
        """Whether `token` is this session's, compared in constant time."""
        return hmac.compare_digest(self.token.encode(), token.encode("utf-8", "replace"))

    def close(self) -> None:
        if self._owns_user:
            self.user.close()


class Sessions:
    """All sessions. A new one takes the place of the least recently used one, if possible of one
    without a live page."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._key = secrets.token_bytes(32)
        self._now_s = now_s
        self._open: dict[str, BrowserSession] = {}
        self._lock = threading.Lock()

    def open(self, user: UserView, *, owns_user: bool) -> BrowserSession:
        """A new session; with `owns_user` the user's clients end with it."""
        now = self._now_s()
        session = BrowserSession(secrets.token_urlsafe(24), user, now + LIFE_S, owns_user=owns_user)
        session.used_at = now
        with self._lock:
            gone = [s for s in self._open.values() if self._is_over(s, now)]
            if len(self._open) - len(gone) >= SESSIONS_MAX:
                gone.append(min(self._open.values(), key=lambda s: (s.streams > 0, s.used_at)))
            for old in gone:
                self._open.pop(old.name, None)
            self._open[session.name] = session
        for old in gone:
            old.close()
        return session

    def cookie_of(self, session: BrowserSession) -> str:
        text = f"{session.name}.{int(session.ends_at)}"
        return f"{text}.{self._signature(text)}"

    def find(self, cookie: str, *, uses: bool = True) -> BrowserSession | None:
        """The session of a cookie; None where this process has not signed it, or it is over. With `uses` it
        counts as used now."""
        text, _, signature = cookie.rpartition(".")
        given = signature.encode("utf-8", "replace")
        if not hmac.compare_digest(self._signature(text).encode(), given):
            return None
        now = self._now_s()
        with self._lock:
            session = self._open.get(text.partition(".")[0])
            if session is None:
                return None
            if not self._is_over(session, now):
                session.used_at = now if uses else session.used_at
                return session
            del self._open[session.name]
        session.close()
        return None

    def end(self, session: BrowserSession) -> None:
        with self._lock:
            self._open.pop(session.name, None)
        session.close()

    def close(self) -> None:
        for session in list(self._open.values()):
            self.end(session)

    def _is_over(self, session: BrowserSession, now: float) -> bool:
        return now >= session.ends_at or now >= session.used_at + IDLE_S

    def _signature(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
