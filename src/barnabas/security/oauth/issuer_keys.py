"""An issuer's public keys, read at the start and again from time to time, off the node's thread.

A token that names a key which is not there asks for an early look, at most one per
``sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms``. Keys that cannot be read leave the former in use.
Source: Kafka's ``RefreshingHttpsJwks``, ``JwksFileVerificationKeyResolver``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from barnabas.config.definition import ConfigError, without_user
from barnabas.ports import HasWeb, Ports, WebRequest
from barnabas.security.oauth.json_web_tokens import (
    Claims,
    IssuerKey,
    KeySetError,
    TokenRules,
    UnknownKey,
    check_token,
    parse_key_set,
)

JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
FILE_REFRESH_MS = 10_000
"""A file is read as often as this, where nothing shorter is configured."""


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """The settings of an issuer: where keys are published, how often they are read, and what tokens must
    be."""

    request: WebRequest
    refresh_ms: int = 3_600_000
    early_refresh_ms: int = 10_000
    rules: TokenRules = field(default_factory=TokenRules)


class IssuerKeys:
    """The keys of one listener's issuer."""

    def __init__(self, ports: Ports, settings: IssuerSettings) -> None:
        """Raises :class:`ConfigError` where there is no web."""
        if not isinstance(ports, HasWeb):
            raise ConfigError(JWKS_URL, settings.request.url, "keys cannot be read here")
        self._ports = ports
        self._web = ports.web
        self._settings = settings
        self._keys: tuple[IssuerKey, ...] = ()
        self._is_reading = False
        self._read_at_ms = float("-inf")
        self.failures = 0
        """Times that keys could not be read."""

    def __repr__(self) -> str:
        return f"IssuerKeys({without_user(self._settings.request.url)}, {len(self._keys)} keys)"

    def __len__(self) -> int:
        return len(self._keys)

    def begin(self) -> None:
        """Read them for the first time. Blocks: for the start. A file that holds none raises
        :class:`ConfigError`; an address that does not answer is tried again."""
        request = self._settings.request
        try:
            self._keys = parse_key_set(self._web.fetch(request._replace(retry_max_ms=0)))
        except (OSError, KeySetError) as error:
            if request.is_file:
                raise ConfigError(JWKS_URL, request.url, f"it has no keys: {error}") from error
            self._note_failure(error)
        except ImportError as error:
            why = "OAUTHBEARER needs a package: pip install 'barnabas[security]'"
            raise ConfigError("sasl.enabled.mechanisms", "OAUTHBEARER", why) from error
        self._read_at_ms = self._ports.clock.now_ms()
        self._arm()

    def check(self, token: str) -> Claims:
        """The claims of `token`. Raises ``TokenRefused``."""
        wall_ms = self._ports.clock.wall_ms()
        try:
            return check_token(token, self._keys, self._settings.rules, wall_ms)
        except UnknownKey:
            due_ms = self._read_at_ms + self._settings.early_refresh_ms
            if self._ports.clock.now_ms() >= due_ms:
                self._read()
            raise

    def _arm(self) -> None:
        every_ms = self._settings.refresh_ms
        if self._settings.request.is_file:
            every_ms = min(every_ms, FILE_REFRESH_MS)
        if not self._keys:
            every_ms = min(every_ms, self._settings.early_refresh_ms)
        at_ms = self._ports.clock.now_ms() + max(every_ms, 1)
        self._ports.wakeups.call_at(at_ms, self._on_due)

    def _on_due(self) -> None:
        self._read()
        self._arm()

    def _read(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        self._read_at_ms = self._ports.clock.now_ms()
        job = partial(self._web.fetch, self._settings.request)
        self._ports.background.run("issuer-keys", job, self._on_read)

    def _on_read(self, found: bytes | BaseException) -> None:
        self._is_reading = False
        try:
            if isinstance(found, BaseException):
                raise KeySetError(str(found)) from found
            self._keys = parse_key_set(found)
        except KeySetError as error:
            self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        self.failures += 1
        self._ports.log(
            "error", "oauth.keys_not_read",
            url=self._settings.request.url, keys=len(self._keys), reason=str(error),
        )  # fmt: skip
