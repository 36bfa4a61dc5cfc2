"""Which bearer token is to be believed: a JSON Web Token, signed by a key of its issuer (RFC 7515 to 7519).

Signatures are checked by PyJWT, claims by the rules of Kafka's ``BrokerJwtValidator``. Only algorithms with a
public key count: neither ``none`` nor an HMAC, whose key could be the published one. Needs
``pip install 'barnabas[security]'``. Source: KIP-768.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

TOKEN_BYTES_MAX = 64 * 1024
KEYS_MAX = 100
NAME_LENGTH_MAX = 1_000
RSA_BITS_MIN = 2048
SECONDS_MAX = 253_402_300_799
"""The end of the year 9999: a date beyond it is none."""
_FAMILIES = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}


class TokenRefused(Exception):
    """A token is not believed; the text says why, for this side's log, and has nothing of the token."""


class UnknownKey(TokenRefused):
    """No key of the issuer has the id that the token names: it may have been published since."""


class KeySetError(ValueError):
    """The published text is no set of keys."""


class IssuerKey(NamedTuple):
    """One public key: its id, the algorithms that it may have signed with, and PyJWT's object."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The rules for a token, beside its signature. Times in seconds."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    """One of which a token must name; empty is no such rule."""
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"


class Claims(NamedTuple):
    """The claims of a believed token: whose it is, its scope, and when it ends (ms since the epoch)."""

    subject: str
    expires_ms: int
    scope: frozenset[str]


def parse_key_set(data: bytes) -> tuple[IssuerKey, ...]:
    """The keys of a JWKS document that verify signatures; others are left out. Raises `KeySetError`."""
    import jwt

    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise KeySetError("it is no JSON") from error
    items = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(items, list) or len(items) > KEYS_MAX:
        raise KeySetError(f"it has no list 'keys' of at most {KEYS_MAX}")
    keys = []
    for item in items:
        if not isinstance(item, dict) or item.get("use", "sig") != "sig":
            continue
        algorithms = _algorithms(item)
        if not algorithms:
            continue
        try:
            key = jwt.PyJWK({**item, "alg": algorithms[0]})
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if getattr(key.key, "key_size", RSA_BITS_MIN) < RSA_BITS_MIN and item["kty"] == "RSA":
            continue
        name = item.get("kid")
        keys.append(IssuerKey(name if isinstance(name, str) else None, algorithms, key))
    if not keys:
        raise KeySetError("it has no public key that verifies signatures")
    return tuple(keys)


def _algorithms(item: Mapping[str, Any]) -> tuple[str, ...]:
    family = _FAMILIES.get(str(item.get("kty")), ())
    if item.get("kty") == "EC":
        family = tuple(filter(None, (_CURVES.get(str(item.get("crv"))),)))
    said = item.get("alg")
    if said is None:
        return family
    return (said,) if said in family else ()


def check_token(token: str, keys: Sequence[IssuerKey], rules: TokenRules, wall_ms: int) -> Claims:
    """The claims of `token`. Raises :class:`TokenRefused`."""
    if len(token) > TOKEN_BYTES_MAX:
        raise TokenRefused(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
    header = _part(token, 0)
    algorithm, name = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not any(algorithm in all_ for all_ in _FAMILIES.values()):
        raise TokenRefused("the token is not signed by an algorithm with a public key")
    if "crit" in header or (name is not None and not isinstance(name, str)):
        raise TokenRefused("the token's header is not understood")
    if name is not None and len(name) > NAME_LENGTH_MAX:
        raise TokenRefused("the token names a key that is too long")
    return _claims(_verified(token, keys, algorithm, name), rules, wall_ms)


def _verified(
    token: str, keys: Sequence[IssuerKey], algorithm: str, name: str | None
) -> Mapping[str, Any]:
    import jwt

    named = [key for key in keys if name is None or key.key_id == name]
    if not named:
        raise UnknownKey("the issuer publishes no key of the id that the token names")
    fitting = [key for key in named if algorithm in key.algorithms]
    if not fitting:
        raise TokenRefused("the token's algorithm is not that of its issuer's key")
    checks = ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
    options: Any = {"verify_signature": True, **{f"verify_{check}": False for check in checks}}
    for key in fitting:
        try:
            found = jwt.decode(token, key.key.key, algorithms=[algorithm], options=options)
        except jwt.InvalidSignatureError:
            continue
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise TokenRefused("the token is malformed") from error
        return dict(found)
    raise TokenRefused("no key of the issuer has signed the token")


def _claims(claims: Mapping[str, Any], rules: TokenRules, wall_ms: int) -> Claims:
    now_s, skew_s = wall_ms / 1000, rules.clock_skew_s
    expires_s, issued_s = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires_s + skew_s <= now_s:
        raise TokenRefused("the token has expired")
    if issued_s - skew_s > now_s:
        raise TokenRefused("the token is issued in the future")
    if "nbf" in claims and _seconds(claims, "nbf") - skew_s > now_s:
        raise TokenRefused("the token is not yet valid")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("the token is of another issuer")
    audiences = claims.get("aud", [])
    given = {audiences} if isinstance(audiences, str) else _texts(audiences)
    if rules.audiences and not given & set(rules.audiences):
        raise TokenRefused("the token is for another audience")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip() or len(subject) > NAME_LENGTH_MAX:
        raise TokenRefused(f"the token has no usable claim {rules.subject_claim}")
    scope = claims.get(rules.scope_claim, [])
    scopes = {scope} if isinstance(scope, str) else _texts(scope)
    return Claims(subject.strip(), int(expires_s * 1000), frozenset(scopes))


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused(f"the token has no claim {name}")
    if not 0 <= value <= SECONDS_MAX:
        raise TokenRefused(f"the token's claim {name} is no date")
    return value


def _texts(value: object) -> set[str]:
    return {name for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _part(token: str, number: int) -> Mapping[str, Any]:
    """One part of a token, not verified. Raises :class:`TokenRefused`."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("the token is no signed JSON Web Token")
    text = parts[number]
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise TokenRefused("the token is malformed") from error
    if not isinstance(found, dict):
        raise TokenRefused("the token is malformed")
    return found


def unverified_expiry_ms(token: str) -> int | None:
    """When this side's own token says that it ends; None where it does not say so in a form known here."""
    try:
        return int(_seconds(_part(token, 1), "exp") * 1000)
    except TokenRefused:
        return None
