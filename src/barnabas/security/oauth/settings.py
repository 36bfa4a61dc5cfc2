"""The ``sasl.oauthbearer.*`` and ``sasl.login.*`` keys of a listener or client as values.

Combinations that cannot work are refused with one sentence that names the key. Source: KIP-768, 1139; Kafka's
``SaslConfigs``, ``ConfigurationUtils``, ``JaasOptionsUtils``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from barnabas.config.definition import ConfigError
from barnabas.ports import WebRequest
from barnabas.security.oauth.issuer_keys import JWKS_URL, IssuerSettings
from barnabas.security.oauth.json_web_tokens import TokenRules
from barnabas.security.oauth.login import OAuthLogin
from barnabas.security.tls_settings import SecurityKeys, TlsSettings, tls_settings

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_SERVER_HANDLER, _LOGIN_HANDLER = (
    "sasl.server.callback.handler.class",
    "sasl.login.callback.handler.class",
)
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_EXTENSION = "extension_"


def _names(simple: str) -> tuple[str, ...]:
    """A class of Kafka's, in the package of 4.x and in that of 3.x."""
    return (f"{_PACKAGE}{simple}", f"{_PACKAGE}secured.{simple}")


CLASSES = {
    _SERVER_HANDLER: _names("OAuthBearerValidatorCallbackHandler"),
    _LOGIN_HANDLER: _names("OAuthBearerLoginCallbackHandler"),
    "sasl.oauthbearer.jwt.validator.class": (
        f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator",
        f"{_PACKAGE}ClientJwtValidator",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_PACKAGE}DefaultJwtRetriever", f"{_PACKAGE}ClientCredentialsJwtRetriever",
        f"{_PACKAGE}FileJwtRetriever",
    ),
}  # fmt: skip
"""The functions that this program has itself, under the names of the classes that have them in Kafka."""


def issuer_settings(keys: SecurityKeys, options: Mapping[str, str]) -> IssuerSettings:
    """The issuer that a listener believes; `options` are those of its login module. Raises
    :class:`ConfigError`."""
    _check_class(keys, _SERVER_HANDLER)
    _check_class(keys, "sasl.oauthbearer.jwt.validator.class")
    url = _url(keys, JWKS_URL, "a listener that takes tokens needs it")
    refresh_ms = _number(keys, "sasl.oauthbearer.jwks.endpoint.refresh.ms")
    request = _request(keys, url, "sasl.oauthbearer.jwks.endpoint.retry.backoff", options)
    issuer = keys.word("sasl.oauthbearer.expected.issuer") or None
    audiences = cast("list[str] | None", keys.value("sasl.oauthbearer.expected.audience")) or ()
    for what, expected in (("audience", audiences), ("issuer", issuer)):
        if not expected and not keys.value(f"sasl.oauthbearer.allow.unverified.{what}"):
            raise ConfigError(
                f"{keys.prefix}sasl.oauthbearer.expected.{what}",
                "",
                f"tokens of any {what} would be taken; name the right one, or set"
                f" sasl.oauthbearer.allow.unverified.{what}=true",
            )
    rules = TokenRules(
        issuer,
        tuple(audiences),
        _number(keys, "sasl.oauthbearer.clock.skew.seconds"),
        _claim(keys, "sasl.oauthbearer.scope.claim.name"),
        _claim(keys, "sasl.oauthbearer.sub.claim.name"),
    )
    return IssuerSettings(request, refresh_ms, max(request.retry_max_ms, 1), rules)


def oauth_login(keys: SecurityKeys, options: Mapping[str, str]) -> OAuthLogin:
    """How this side obtains tokens; `options` are those of its login module. Raises :class:`ConfigError`."""
    _check_class(keys, _LOGIN_HANDLER)
    _check_class(keys, "sasl.oauthbearer.jwt.retriever.class")
    if unsecured := [name for name in options if name.startswith("unsecuredLogin")]:
        raise ConfigError("sasl.jaas.config", "(hidden)", f"{unsecured[0]}: tokens must be signed")
    url = _url(keys, TOKEN_URL, "OAUTHBEARER needs it: the address that issues tokens, or a file:")
    request = _request(keys, url, "sasl.login.retry.backoff", options)
    start = "sasl.oauthbearer.client.credentials.client."
    identity = keys.word(start + "id") or options.get("clientId", "")
    secret = keys.word(start + "secret") or options.get("clientSecret", "")
    if not request.is_file and not (identity and secret):
        raise ConfigError(
            keys.prefix + start + "id", "", f"{url} needs a client id and a client secret"
        )
    return OAuthLogin(
        request,
        identity,
        secret,
        keys.word("sasl.oauthbearer.scope") or options.get("scope", ""),
        (keys.text("sasl.oauthbearer.header.urlencode") or "").lower() == "true",
        tuple(
            (name.removeprefix(_EXTENSION), value)
            for name, value in options.items()
            if name.startswith(_EXTENSION)
        ),
        cast(float, keys.value("sasl.login.refresh.window.factor")),
    )


def _check_class(keys: SecurityKeys, key: str) -> None:
    given = keys.own_text(f"oauthbearer.{key}") or keys.text(key)
    known = CLASSES[key]
    if given is not None and given.strip() not in known:
        raise ConfigError(keys.name(key), given, f"it must be {known[0]}: Java does not run here")


def _url(keys: SecurityKeys, key: str, need: str) -> str:
    url = keys.word(key).strip()
    if not url:
        raise ConfigError(keys.prefix + key, "", need)
    parts = urlsplit(url)
    problem = ""
    if parts.scheme not in ("https", "http", "file"):
        problem = "it must begin with https:, http: or file:"
    elif parts.scheme == "file" and (not parts.path or parts.netloc not in ("", "localhost")):
        problem = "it must be file: and the path of a file of this machine"
    elif parts.scheme != "file" and (not parts.hostname or parts.username or parts.password):
        problem = "it must name a host, and no user"
    if problem:
        raise ConfigError(keys.name(key), "(hidden)" if parts.password else url, problem)
    return url


def _request(keys: SecurityKeys, url: str, backoff: str, options: Mapping[str, str]) -> WebRequest:
    """The request for `url`, tried again by the keys that begin with `backoff`."""
    default = WebRequest(url)
    connect, read = "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"
    return default._replace(
        connect_ms=cast("int | None", keys.value(connect)) or default.connect_ms,
        read_ms=cast("int | None", keys.value(read)) or default.read_ms,
        retry_ms=_number(keys, f"{backoff}.ms"),
        retry_max_ms=_number(keys, f"{backoff}.max.ms"),
        trust=_trust(url, options),
    )


def _trust(url: str, options: Mapping[str, str]) -> TlsSettings | None:
    """The trust of a login module's options ``ssl.*``, as in Kafka; else the machine's authorities are
    trusted."""
    given = {name: value for name, value in options.items() if name.startswith("ssl.")}
    if not given or not url.startswith("https:"):
        return None
    return tls_settings(SecurityKeys(given), is_server=False)


def _number(keys: SecurityKeys, key: str) -> int:
    value = cast(int, keys.value(key))
    if value < 0:
        raise ConfigError(keys.name(key), str(value), "it must not be negative")
    return value


def _claim(keys: SecurityKeys, key: str) -> str:
    name = keys.word(key).strip()
    if not name:
        raise ConfigError(keys.name(key), "", "it must name a claim")
    return name
