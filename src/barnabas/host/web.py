"""Identity providers over HTTP and HTTPS, and files in their place: ``ports.Web``.

No redirect is followed, no proxy is used, and an answer ends at `limits.WEB_ANSWER_BYTES_MAX` and after the
request's time. Statuses that may pass (408, 429, 5xx) and connections that fail are tried again.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from barnabas import limits
from barnabas.ports import WebRequest

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
Contexts = Callable[[Any], ssl.SSLContext]
"""The TLS context of a request's `trust`."""


class _Passing(OSError):
    """It may work when it is tried again."""


class HostWeb:
    """``ports.Web`` of one process."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._pause = threading.Event()
        """Between two attempts."""

    def fetch(self, request: WebRequest) -> bytes:
        parts = urlsplit(request.url)
        if parts.scheme == "file":
            return _read_file(unquote(parts.path))
        until_s = time.monotonic() + request.retry_max_ms / 1000
        rest_s = max(request.retry_ms, 1) / 1000
        while True:
            try:
                return self._ask(request)
            except _Passing:
                if time.monotonic() + rest_s > until_s:
                    raise
            self._pause.wait(rest_s)  # on a background thread
            rest_s *= 2

    def _ask(self, request: WebRequest) -> bytes:
        parts = urlsplit(request.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        until_s = time.monotonic() + (request.connect_ms + request.read_ms) / 1000
        try:
            with closing(self._connection(request)) as connection:
                connection.connect()
                if connection.sock is not None:
                    connection.sock.settimeout(request.read_ms / 1000)
                method = "GET" if request.form is None else "POST"
                connection.request(method, path, body=request.form, headers=dict(request.headers))
                response = connection.getresponse()
                if response.status != 200:
                    text = f"{request.url} answers with status {response.status}"
                    raise _Passing(text) if response.status in PASSING else OSError(text)
                return _read_answer(response, request.url, until_s)
        except _Passing:
            raise
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message
            raise OSError(f"the certificate of {request.url} is not trusted: {why}") from error
        except (TimeoutError, ConnectionError, socket.gaierror, http.client.HTTPException) as error:
            _fail(request.url, error)
        except ssl.SSLError as error:
            raise OSError(f"no TLS connection to {request.url}: {error.reason}") from error

    def _connection(self, request: WebRequest) -> http.client.HTTPConnection:
        parts = urlsplit(request.url)
        timeout_s = request.connect_ms / 1000
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = self._contexts(request.trust)
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _fail(url: str, error: Exception) -> NoReturn:
    why = "it takes too long" if isinstance(error, TimeoutError) else type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        why = error.strerror
    raise _Passing(f"{url} does not answer: {why}") from error


def _read_answer(response: http.client.HTTPResponse, url: str, until_s: float) -> bytes:
    """A peer that sends a byte at a time ends by the clock, not by the silence between two."""
    found = bytearray()
    while piece := response.read1(64 * 1024):
        found += piece
        if len(found) > limits.WEB_ANSWER_BYTES_MAX:
            raise OSError(f"{url} answers with more than {limits.WEB_ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > until_s:
            raise _Passing(f"{url} does not answer: it takes too long")
    return bytes(found)


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            found = file.read(limits.WEB_ANSWER_BYTES_MAX + 1)
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}") from error
    if len(found) > limits.WEB_ANSWER_BYTES_MAX:
        raise OSError(f"{path} has more than {limits.WEB_ANSWER_BYTES_MAX} bytes")
    return found
