"""The certificates that a listener shows to its clients: read by a handshake that trusts anyone.

Nothing is sent behind the handshake. A listener that wants its clients' certificates shows its own before it
sees theirs (TLS 1.3).
"""

from __future__ import annotations

import socket
import ssl
import sys
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtensionOID

from barnabas.cli.failure import Failure
from barnabas.types import Endpoint

TIMEOUT_S = 5.0


def presented(endpoint: Endpoint) -> list[x509.Certificate]:
    """Its own certificate, and behind it those of its chain. Raises :class:`Failure` where it does not answer
    or speaks no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((endpoint.host, endpoint.port), TIMEOUT_S) as raw,
            context.wrap_socket(raw, server_hostname=endpoint.host) as secured,
        ):
            shown = _shown_by(secured)
    except ssl.SSLError as error:
        raise Failure(f"{endpoint} speaks no TLS ({error.reason or error})") from error
    except TimeoutError as error:
        raise Failure(f"{endpoint} does not answer a TLS handshake") from error
    except OSError as error:
        raise Failure(f"{endpoint} cannot be reached: {error.strerror or error}") from error
    except ValueError as error:
        raise Failure(f"{endpoint} names no host: {error}") from error
    if not shown:
        raise Failure(f"{endpoint} shows no certificate")
    try:
        return [x509.load_der_x509_certificate(der) for der in shown]
    except ValueError as error:
        raise Failure(f"{endpoint} shows a certificate that cannot be read: {error}") from error


def _shown_by(secured: ssl.SSLSocket) -> list[bytes]:
    """DER. What lists the chain is public from Python 3.13 on; before, the object inside has it."""
    if sys.version_info >= (3, 13):
        return list(secured.get_unverified_chain())
    inner = getattr(secured, "_sslobj")  # noqa: B009
    chain = inner.get_unverified_chain() or ()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in chain]


def names_of(certificate: x509.Certificate) -> list[str]:
    """Host names and addresses that it is for."""
    try:
        found = certificate.extensions.get_extension_for_oid(
            ExtensionOID.SUBJECT_ALTERNATIVE_NAME
        ).value
    except x509.ExtensionNotFound:
        return []
    assert isinstance(found, x509.SubjectAlternativeName)
    addresses = found.get_values_for_type(x509.IPAddress)
    return [*found.get_values_for_type(x509.DNSName), *map(str, addresses)]


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256, as `openssl x509 -fingerprint -sha256` writes it."""
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def seconds_left(certificate: x509.Certificate) -> int:
    """Negative once its end has passed."""
    return int((certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds())
