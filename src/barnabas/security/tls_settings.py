"""The ``ssl.*`` keys of one listener or client as one value: what a TLS context is made of.

Reads no file: `host` does, which also knows how to turn a keystore into a certificate and its key. A key with
a listener's prefix wins over the plain one (KIP-103). Combinations that cannot work are refused here with one
sentence that names the key. Source: Kafka's ``SslConfigs`` and ``DefaultSslEngineFactory``, KIP-651 (PEM).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from barnabas.config.broker import BROKER
from barnabas.config.definition import ConfigError, ConfigValue

VERSIONS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("PEM", "PKCS12", "JKS")


class SecurityKeys:
    """Keys of one listener (`prefix`) or client, typed as a node's table has them."""

    def __init__(self, texts: Mapping[str, str], prefix: str = "") -> None:
        self.prefix = prefix
        self._texts = texts

    def name(self, key: str) -> str:
        """`key` as the configuration has it, for errors."""
        return self.prefix + key if self.prefix + key in self._texts else key

    def text(self, key: str) -> str | None:
        """The value that is set, or None."""
        return self._texts.get(self.prefix + key, self._texts.get(key))

    def own_text(self, key: str) -> str | None:
        """The value that is set for this listener alone, or None."""
        return self._texts.get(self.prefix + key) if self.prefix else None

    def value(self, key: str) -> ConfigValue:
        """Typed; the default where nothing is set. Raises :class:`ConfigError`."""
        text = self.text(key)
        return BROKER.default(key) if text is None else BROKER.parse(key, text)

    def word(self, key: str) -> str:
        """A key of type string, empty where it has no value."""
        return str(self.value(key) or "")


@dataclass(frozen=True, slots=True)
class CertificateStore:
    """A keystore or truststore: a file, or PEM texts. Secrets stay out of its ``repr``."""

    kind: str
    location: str = ""
    password: str = field(default="", repr=False)
    certificates: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    name: str = "keystore"
    """keystore or truststore, for errors."""

    @property
    def is_inline(self) -> bool:
        return not self.location


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Everything that one context is made of."""

    keystore: CertificateStore | None
    truststore: CertificateStore | None
    versions: tuple[str, ...] = VERSIONS
    ciphers: tuple[str, ...] = ()
    client_auth: str = "none"
    """none, requested or required: whether a server asks for its clients' certificates."""
    checks_names: bool = True
    """Whether a client compares a server's name with its certificate."""

    def with_stores_of(self, other: TlsSettings) -> TlsSettings:
        """The certificates and keys of `other`, and all else as it is."""
        return replace(self, keystore=other.keystore, truststore=other.truststore)


def tls_settings(keys: SecurityKeys, *, is_server: bool) -> TlsSettings:
    """Raises :class:`ConfigError`."""
    keystore, truststore = _keystore(keys), _truststore(keys)
    client_auth = keys.word("ssl.client.auth").lower()
    if is_server and keystore is None:
        raise ConfigError(
            keys.prefix + "ssl.keystore.location", "",
            "a listener that speaks TLS needs it, or ssl.keystore.certificate.chain and ssl.keystore.key",
        )  # fmt: skip
    if is_server and client_auth != "none" and truststore is None:
        raise ConfigError(
            keys.prefix + "ssl.truststore.location", "",
            f"ssl.client.auth={client_auth} needs it, or ssl.truststore.certificates",
        )  # fmt: skip
    return TlsSettings(
        keystore,
        truststore,
        _versions(keys),
        tuple(cast("list[str] | None", keys.value("ssl.cipher.suites")) or ()),
        client_auth if is_server else "none",
        _checks_names(keys),
    )


def _checks_names(keys: SecurityKeys) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    algorithm = keys.word(key).lower()
    if algorithm not in ("", "https"):
        raise ConfigError(keys.name(key), algorithm, "it must be https, or empty to check no names")
    return algorithm == "https"


def _versions(keys: SecurityKeys) -> tuple[str, ...]:
    key = "ssl.enabled.protocols"
    given = cast("list[str] | None", keys.value(key)) or []
    unknown = [version for version in given if version not in VERSIONS]
    if unknown or not given:
        raise ConfigError(keys.name(key), ",".join(given), "it may have TLSv1.2 and TLSv1.3 only")
    return tuple(version for version in VERSIONS if version in given)


def _kind(keys: SecurityKeys, key: str) -> str:
    kind = keys.word(key).upper()
    if kind not in STORE_TYPES:
        raise ConfigError(keys.name(key), kind, f"it must be {', '.join(STORE_TYPES)}")
    return kind


def _keystore(keys: SecurityKeys) -> CertificateStore | None:
    kind = _kind(keys, "ssl.keystore.type")
    location = keys.text("ssl.keystore.location") or ""
    chain = keys.text("ssl.keystore.certificate.chain") or ""
    key = keys.text("ssl.keystore.key") or ""
    _check_inline(keys, "ssl.keystore.certificate.chain", bool(chain), location, kind)
    if bool(chain) != bool(key):
        missing = "ssl.keystore.key" if chain else "ssl.keystore.certificate.chain"
        raise ConfigError(keys.prefix + missing, "", "certificate chain and key come together")
    if not location and not chain:
        return None
    return CertificateStore(
        kind,
        location,
        keys.text("ssl.keystore.password") or "",
        chain,
        key,
        keys.text("ssl.key.password") or "",
        "keystore",
    )


def _truststore(keys: SecurityKeys) -> CertificateStore | None:
    kind = _kind(keys, "ssl.truststore.type")
    location = keys.text("ssl.truststore.location") or ""
    certificates = keys.text("ssl.truststore.certificates") or ""
    _check_inline(keys, "ssl.truststore.certificates", bool(certificates), location, kind)
    if not location and not certificates:
        return None
    password = keys.text("ssl.truststore.password") or ""
    return CertificateStore(kind, location, password, certificates, name="truststore")


def _check_inline(keys: SecurityKeys, key: str, given: bool, location: str, kind: str) -> None:
    if given and location:
        raise ConfigError(
            keys.name(key), "(hidden)", "it and a store's location exclude each other"
        )
    if given and kind != "PEM":
        store = key.split(".")[1]
        raise ConfigError(keys.name(key), "(hidden)", f"it needs ssl.{store}.type=PEM")
