"""Makes TLS contexts from keystores and truststores, and reads them again when their files change:
``ports.Secrets``.

The standard library reads PEM; the `cryptography` package reads PKCS12 (``pip install
barnabas[security]``); JKS is refused with the command that converts it. A private key reaches the
library through a file in memory: it is never written to a disk. A changed file that cannot be used
leaves the former context in use, with one log event.

Source: Kafka's ``DefaultSslEngineFactory`` and ``SslFactory``, KIP-651.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from barnabas.config.definition import ConfigError
from barnabas.config.providers import Resolved, resolve
from barnabas.host.secrets.config_files import HostSources
from barnabas.host.system.files import unnamed_file
from barnabas.security.certificates import read_certificate
from barnabas.security.tls_settings import CertificateStore, TlsSettings

JKS_MAGIC, JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
PEM_MARK = b"-----BEGIN"
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED,
}  # fmt: skip
SERVER_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2: forward secrecy and authenticated encryption."""
Log = Callable[..., None]


class _Material(NamedTuple):
    """The content of a store, as PEM text."""

    certificates: str
    key: str
    key_password: str


class _Context(NamedTuple):
    context: ssl.SSLContext
    stamps: tuple[tuple[int, int, int], ...]
    """The stamps of its files: inode, time of change, size."""
    expires_ms: int | None
    """The expiry of this side's own certificate."""


class HostSecrets:
    """``ports.Secrets`` of one process."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._contexts: dict[tuple[TlsSettings, bool], _Context] = {}

    def token_bytes(self, size: int) -> bytes:
        return os.urandom(size)

    def answer_variables(self, properties: Mapping[str, str]) -> Resolved:
        """Raises :class:`ConfigError`."""
        return resolve(properties, HostSources())

    def check_tls(self, settings: TlsSettings, *, is_server: bool) -> None:
        """Raises :class:`ConfigError`."""
        self._contexts[settings, is_server] = _make(settings, is_server)

    def open_tls(
        self,
        settings: TlsSettings,
        incoming: Any,
        outgoing: Any,
        *,
        is_server: bool,
        server_name: str | None = None,
    ) -> ssl.SSLObject:
        """Raises ``OSError``."""
        context = self.context(settings, is_server=is_server)
        name = None if is_server else server_name
        return context.wrap_bio(incoming, outgoing, server_side=is_server, server_hostname=name)

    def client_context(self, settings: TlsSettings | None) -> ssl.SSLContext:
        """The context of a client that trusts the truststore of `settings`, or else the machine's.
        Raises ``OSError``."""
        if settings is None:
            return ssl.create_default_context()
        return self.context(settings, is_server=False)

    def context(self, settings: TlsSettings, *, is_server: bool) -> ssl.SSLContext:
        """The context of `settings`, with the present content of the files. Raises ``OSError``."""
        kept = self._contexts.get((settings, is_server))
        stamps = _stamps(settings)
        if kept is not None and (kept.stamps == stamps or () in stamps):
            return kept.context
        try:
            made = _make(settings, is_server)
        except ConfigError as error:
            if kept is None:
                raise OSError(str(error)) from error
            self._log("error", "tls.reload_failed", reason=str(error))
            made = kept._replace(stamps=stamps)
        else:
            if kept is not None:
                self._log("info", "tls.reloaded", expires_ms=made.expires_ms)
        self._contexts[settings, is_server] = made
        return made.context

    def certificate_ends_ms(self, settings: TlsSettings) -> int | None:
        """Raises ``OSError``."""
        self.context(settings, is_server=True)
        return self._contexts[settings, True].expires_ms

    def describe(self) -> dict[str, int | None]:
        """The expiry of this process's certificates, by keystore."""
        return {
            settings.keystore.location or "inline": made.expires_ms
            for (settings, _), made in self._contexts.items()
            if settings.keystore is not None
        }


def _stamps(settings: TlsSettings) -> tuple[Any, ...]:
    """The stamps of the files. A missing file has an empty stamp: it may be being replaced."""
    found: list[tuple[int, ...]] = []
    for store in (settings.keystore, settings.truststore):
        if store is not None and store.location:
            try:
                stat = os.stat(store.location)
            except OSError:
                found.append(())
            else:
                found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _make(settings: TlsSettings, is_server: bool) -> _Context:
    """Raises :class:`ConfigError`."""
    stamps = _stamps(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[settings.versions[0]]
    context.maximum_version = _VERSIONS[settings.versions[-1]]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    if is_server:
        context.num_tickets = 0
        context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    else:
        context.check_hostname = settings.checks_names
        context.verify_mode = ssl.CERT_REQUIRED
    _choose_ciphers(context, settings.ciphers, is_server)
    expires_ms = None
    if settings.keystore is not None:
        expires_ms = _load_own(context, settings.keystore)
    if settings.truststore is not None:
        _load_trusted(context, settings.truststore)
    elif not is_server:
        context.load_default_certs()
    return _Context(context, stamps, expires_ms)


def _choose_ciphers(context: ssl.SSLContext, suites: tuple[str, ...], is_server: bool) -> None:
    """Set the ciphers. Names of TLS 1.2 in Java's form become OpenSSL's; those of 1.3 are always on. A server
    whose configuration names none takes `SERVER_CIPHERS`."""
    names = [_openssl_name(suite) for suite in suites if not _is_of_13(suite)]
    if not names:
        if is_server:
            context.set_ciphers(SERVER_CIPHERS)
        return
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError as error:
        raise ConfigError("ssl.cipher.suites", ",".join(suites), "none of them is known") from error


def _is_of_13(suite: str) -> bool:
    return suite.startswith("TLS_") and "_WITH_" not in suite


def _openssl_name(suite: str) -> str:
    if not suite.startswith("TLS_"):
        return suite
    name = suite.removeprefix("TLS_").replace("_WITH", "").replace("AES_", "AES")
    return (
        name.replace("_CBC_SHA", "-SHA")
        .replace("_", "-")
        .replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
        .removeprefix("RSA-")
    )


# -- stores ----------------------------------------------------------------------------------------------


def _load_own(context: ssl.SSLContext, store: CertificateStore) -> int | None:
    material = _material(store)
    if PEM_MARK.decode() not in material.key:
        raise _refused(store, "it holds no private key")
    password = material.key_password.encode()
    try:
        with unnamed_file(f"{material.key}\n{material.certificates}\n".encode()) as path:
            context.load_cert_chain(path, password=lambda: password)
    except (ssl.SSLError, OSError, ValueError, TypeError) as error:
        raise _refused(store, _key_problem(error, material)) from error
    try:
        leaf = ssl.PEM_cert_to_DER_cert(_first_certificate(material.certificates))
        return read_certificate(leaf).not_after_ms
    except ValueError:
        return None


def _first_certificate(text: str) -> str:
    start = text.find(ssl.PEM_HEADER)
    end = text.find(ssl.PEM_FOOTER, start)
    return text[start : end + len(ssl.PEM_FOOTER)]


def _key_problem(error: Exception, material: _Material) -> str:
    if "ENCRYPTED" in material.key:
        return "its key is encrypted and ssl.key.password does not open it"
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return "its key does not belong to its certificate"
    return f"it has no usable certificate chain and key ({error})"


def _load_trusted(context: ssl.SSLContext, store: CertificateStore) -> None:
    text = _material(store).certificates
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise _refused(store, "it holds no certificate") from error


def _material(store: CertificateStore) -> _Material:
    if store.is_inline:
        return _Material(store.certificates, store.key, store.key_password)
    try:
        with open(store.location, "rb") as file:
            data = file.read()
    except OSError as error:
        raise _refused(store, f"it cannot be read: {error.strerror}") from error
    if data[:4] in (JKS_MAGIC, JCEKS_MAGIC):
        raise _refused(
            store,
            "it is a JKS store; convert it: keytool -importkeystore -srckeystore"
            f" {store.location} -destkeystore {store.location}.p12 -deststoretype PKCS12,"
            f" and set ssl.{store.name}.type=PKCS12",
        )
    if PEM_MARK in data:
        if store.kind != "PEM":
            raise _refused(store, f"it is a PEM file; set ssl.{store.name}.type=PEM")
        text = data.decode("latin-1")
        return _Material(text, text, store.key_password)
    if store.kind == "PEM":
        raise _refused(store, "it is no PEM file")
    return _read_pkcs12(store, data)


def _read_pkcs12(store: CertificateStore, data: bytes) -> _Material:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise _refused(
            store, "PKCS12 needs the package: pip install 'barnabas[security]'"
        ) from error
    try:
        found = pkcs12.load_pkcs12(data, store.password.encode() or None)
    except ValueError as error:
        problem = f"it is no PKCS12 file, or ssl.{store.name}.password is wrong"
        raise _refused(store, problem) from error
    pem = serialization.Encoding.PEM
    certificates = [found.cert] if found.cert is not None else []
    certificates += found.additional_certs
    text = "".join(
        certificate.certificate.public_bytes(pem).decode() for certificate in certificates
    )
    key = ""
    if found.key is not None:
        form = serialization.PrivateFormat.PKCS8
        key = found.key.private_bytes(pem, form, serialization.NoEncryption()).decode()
    return _Material(text, key, "")


def _refused(store: CertificateStore, problem: str) -> ConfigError:
    if store.is_inline:
        inline = {"keystore": "ssl.keystore.certificate.chain"}
        return ConfigError(
            inline.get(store.name, "ssl.truststore.certificates"), "(hidden)", problem
        )
    return ConfigError(f"ssl.{store.name}.location", store.location, problem)
