"""``sasl.jaas.config``: one login module with its options, in Java's form (KIP-85).

    org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="...";

The module's class says which mechanism it serves; options are the credentials. Nothing of a value shows in an
error. Source: Java's ``ConfigFile``, Kafka's ``JaasConfig``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.config.definition import ConfigError

PLAIN, SCRAM_SHA_256, SCRAM_SHA_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""The mechanisms that this program speaks."""
_ABSENT = {
    "GSSAPI": "Kerberos is not supported; use SCRAM-SHA-512, PLAIN over TLS, or mutual TLS",
}
_MODULES = {
    "PlainLoginModule": (PLAIN,),
    "ScramLoginModule": (SCRAM_SHA_256, SCRAM_SHA_512),
    "OAuthBearerLoginModule": (OAUTHBEARER,),
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s"=;]+|[=;])')
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class LoginModule:
    """`mechanisms` that the module serves; `options` are secrets and stay out of its ``repr``."""

    name: str
    mechanisms: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str:
        return self.options.get("username", "")

    @property
    def password(self) -> str:
        return self.options.get("password", "")

    @property
    def is_token(self) -> bool:
        """Whether the user is a delegation token (``tokenauth="true"`` of the SCRAM module)."""
        return self.options.get("tokenauth", "").strip().lower() == "true"

    @property
    def users(self) -> dict[str, str]:
        """Passwords by name: the options ``user_<name>``."""
        start = "user_"
        return {k[len(start) :]: v for k, v in self.options.items() if k.startswith(start)}


def check_mechanism(key: str, mechanism: str) -> str:
    """`mechanism` itself. Raises :class:`ConfigError` where this program does not speak it."""
    if mechanism not in MECHANISMS:
        why = _ABSENT.get(mechanism, f"it must be one of {', '.join(MECHANISMS)}")
        raise ConfigError(key, mechanism, why)
    return mechanism


def parse_login_module(key: str, text: str, mechanism: str) -> LoginModule:
    """Raises :class:`ConfigError`, also where the module is of another mechanism."""
    words = _words(key, text)
    if len(words) < 3 or words[1].lower() not in _FLAGS or words[-1] != ";":
        raise _refused(key, 'it must be MODULE required name="value" ... ;')
    name = words[0].rpartition(".")[2]
    mechanisms = _MODULES.get(name)
    if mechanisms is None:
        known = " or ".join(_MODULES)
        raise _refused(key, f"its module must be {known}")
    if mechanism not in mechanisms:
        raise _refused(key, f"its module {name} does not serve {mechanism}")
    options: dict[str, str] = {}
    body = words[2:-1]
    if ";" in body:
        raise _refused(key, "it must have one login module")
    if len(body) % 3 or any(body[i] != "=" for i in range(1, len(body), 3)):
        raise _refused(key, 'each option must be name="value"')
    for at in range(0, len(body), 3):
        options[body[at]] = _plain(body[at + 2])
    return LoginModule(name, mechanisms, options)


def _words(key: str, text: str) -> list[str]:
    words, at, text = [], 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _refused(key, "a quotation mark is not closed")
        words.append(match.group(1))
        at = match.end()
    return words


def _plain(word: str) -> str:
    return _ESCAPE.sub(r"\1", word[1:-1]) if word.startswith('"') else word


def _refused(key: str, allowed: str) -> ConfigError:
    return ConfigError(key, "(hidden)", allowed)
