"""Fetches from identity providers over HTTP and HTTPS, or from a file: ``ports.Web``.

No redirect is followed and no proxy is used. An answer has at most `limits.WEB_ANSWER_BYTES_MAX` bytes, and
arrives within the request's time. Temporary statuses (408, 425, 429, 5xx) and failed connections are retried.
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
from barnabas.config.definition import without_user
from barnabas.ports import WebRequest

RETRIABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
Contexts = Callable[[Any], ssl.SSLContext]
"""Makes the TLS context for a request's `trust`."""


class _RetriableError(OSError):
    """A failure that may be temporary."""


class HostWeb:
    """``ports.Web`` of one process."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._pause = threading.Event()
        """Used to wait between two attempts; it is never set."""

    def fetch(self, request: WebRequest) -> bytes:
        parts = urlsplit(request.url)
        if parts.scheme == "file":
            return _read_file(unquote(parts.path))
        until_s = time.monotonic() + request.retry_max_ms / 1000
        backoff_s = max(request.retry_ms, 1) / 1000
        while True:
            try:
                return self._ask(request)
            except _RetriableError:
                if time.monotonic() + backoff_s > until_s:
                    raise
            self._pause.wait(backoff_s)  # on a background thread
            backoff_s *= 2

    def _ask(self, request: WebRequest) -> bytes:
        parts, shown = urlsplit(request.url), without_user(request.url)
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
                    text = f"{shown} answers with status {response.status}"
                    raise _RetriableError(text) if response.status in RETRIABLE else OSError(text)
                return _read_answer(response, shown, until_s)
        except _RetriableError:
            raise
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message
            raise OSError(f"the certificate of {shown} is not trusted: {why}") from error
        except (TimeoutError, ConnectionError, socket.gaierror, http.client.HTTPException) as error:
            _fail(shown, error)
        except ssl.SSLError as error:
            raise OSError(f"no TLS connection to {shown}: {error.reason}") from error
        except OSError as error:
            if error.errno is None:  # raised above, with a sentence
                raise
            _fail(shown, error)  # no route to the host, an unreachable network

    def _connection(self, request: WebRequest) -> http.client.HTTPConnection:
        parts = urlsplit(request.url)
        timeout_s = request.connect_ms / 1000
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = self._contexts(request.trust)
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _fail(url: str, error: Exception) -> NoReturn:
    why = "it took too long" if isinstance(error, TimeoutError) else type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        why = error.strerror
    raise _RetriableError(f"{url} does not answer: {why}") from error


def _read_answer(response: http.client.HTTPResponse, url: str, until_s: float) -> bytes:
    """The body. Raises `_RetriableError` after `until_s`, also if the peer keeps sending single bytes;
    ``OSError`` if it is too large."""
    found = bytearray()
    while piece := response.read1(64 * 1024):
        found += piece
        if len(found) > limits.WEB_ANSWER_BYTES_MAX:
            raise OSError(f"{url} answers with more than {limits.WEB_ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > until_s:
            raise _RetriableError(f"{url} does not answer: it took too long")
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
