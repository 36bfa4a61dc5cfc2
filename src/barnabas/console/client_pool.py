"""The clients of one user. A client is used by one thread at a time, and no call takes longer than
a page may wait.

A client costs a few connections, so a user has at most `CLIENTS_MAX`. A request waits for a free
client, and is refused if that takes too long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from barnabas.client.network.connection import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.host.client import Connected, parse_bootstrap
from barnabas.security.client_security import ClientSecurity

T = TypeVar("T")
CLIENTS_MAX = 4
CALL_MS_MAX = 8_000.0
"""The longest wait of a page for one answer of the cluster."""
BORROW_S_MAX = 15.0


class BoundedClient(Connected):
    """A client whose calls end after `CALL_MS_MAX`, with or without an answer."""

    def wait(self, outcome: TaskOutcome[T], on_slow: Callable[[], None] | None = None) -> T:
        """Run until `outcome` is filled, or `CALL_MS_MAX`. A page has no use for `on_slow`."""
        outcome.when_done(lambda _: self.nudge())
        if not self.run_until(lambda: outcome.done, CALL_MS_MAX):
            trying = self.client.trying
            asked = f" to {trying.asked}" if trying is not None and trying.asked else ""
            raise ChannelError("timeout", f"no answer{asked} within {CALL_MS_MAX / 1000:.0f} s")
        return outcome.result()


class ClientPool:
    """The clients of one user."""

    def __init__(self, bootstrap: str, security: ClientSecurity) -> None:
        """Raises ``ValueError`` for malformed servers."""
        self._servers = parse_bootstrap(bootstrap)
        self._security = security
        self._free: list[BoundedClient] = []
        self._count = 0
        self._closed = False
        self._changed = threading.Condition()

    @contextmanager
    def client(self) -> Iterator[BoundedClient]:
        """Borrow a client. Raises ``ChannelError`` where all are in use for too long."""
        client = self._borrow()
        try:
            yield client
        finally:
            self._give_back(client)

    def new_client(self) -> BoundedClient:
        """A client outside of the pool, which its holder closes."""
        return BoundedClient(self._servers, "barnabas-console", "error", self._security)

    def close(self) -> None:
        """Close the free clients now, and those in use when they are given back."""
        with self._changed:
            self._closed = True
            free, self._free = self._free, []
        for client in free:
            client.close()

    def _borrow(self) -> BoundedClient:
        deadline = time.monotonic() + BORROW_S_MAX
        with self._changed:
            while not self._free and self._count >= CLIENTS_MAX:
                if not self._changed.wait(deadline - time.monotonic()):
                    raise ChannelError(
                        "timeout", "the cluster answers too slowly for all that is asked"
                    )
            if self._free:
                return self._free.pop()
            self._count += 1
        try:
            return self.new_client()
        except BaseException:
            with self._changed:
                self._count -= 1
            raise

    def _give_back(self, client: BoundedClient) -> None:
        with self._changed:
            keeps = not self._closed
            if keeps:
                self._free.append(client)
            else:
                self._count -= 1
            self._changed.notify()
        if not keeps:
            client.close()
