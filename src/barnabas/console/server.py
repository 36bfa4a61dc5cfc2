"""Runs the console: a socket on this machine, uvicorn on it, until the process is asked to end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

import uvicorn

from barnabas.console.application import Console, build
from barnabas.console.settings import ConsoleSettings
from barnabas.types import Endpoint

BACKLOG = 128
CONNECTIONS_MAX = 256
GRACE_S = 3
"""The time that requests may take after the request to end."""


def serve(settings: ConsoleSettings, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` gets the address once connections are taken. Raises ``OSError``
    where the address is in use, ``ConfigError`` and ``ValueError`` for settings that cannot work."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    address = (settings.host, settings.port)
    with socket.create_server(address, family=family, backlog=BACKLOG) as listening:
        _serve(replace(settings, port=listening.getsockname()[1]), listening, ready)


def _serve(
    settings: ConsoleSettings, listening: socket.socket, ready: Callable[[str], None]
) -> None:
    application, console = build(settings)
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.key or None,
    )
    ready(f"{settings.scheme}://{Endpoint(settings.host, settings.port)}/")
    try:
        EndingServer(config, console).run(sockets=[listening])
    finally:
        console.close()


class EndingServer(uvicorn.Server):
    """Ends live pages at once when the process is asked to end, and then returns instead of dying by the
    signal."""

    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._console.ending = True
        super().handle_exit(sig, frame)
