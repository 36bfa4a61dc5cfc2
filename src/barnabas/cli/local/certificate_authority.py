"""A certificate authority for one machine: its own certificate, and those that it signs, as PEM text.

Its key may be stored (`Authority.pem_with_key`, `read_authority`), so that renewed certificates are signed by
an authority which clients trust already. Needs `cryptography` (``pip install 'barnabas[security]'``).
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ORGANIZATION = "Castle, West"
PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Identity:
    """A certificate with its key, as PEM text."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def key_pem(self, password: str = "") -> str:
        how: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            how = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, how).decode()

    def pem(self, password: str = "") -> str:
        return self.key_pem(password) + self.certificate_pem


class Authority:
    """Signs certificates for the loopback addresses."""

    def __init__(
        self,
        name: str = "Barnabas on this machine",
        days: float = 2,
        kept: Identity | None = None,
    ) -> None:
        """`kept`: the stored authority of an earlier process; None makes a new one. Certificates are valid
        for `days`."""
        self._days = days
        self.key = kept.key if kept is not None else ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        if kept is not None:
            self._name = kept.certificate.subject
            self.certificate = kept.certificate
        else:
            self.certificate = self._sign(self._name, self.key, is_authority=True)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    @property
    def pem_with_key(self) -> str:
        return Identity(self.certificate, self.key).pem()

    def identity(
        self, common_name: str, hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        return Identity(self._sign(name, key, hosts), key)

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        hosts: tuple[str, ...] = (),
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=self._days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if hosts:
            names = [_general_name(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        ).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
            critical=False,
        )
        return builder.sign(self.key, hashes.SHA256())


def read_authority(pem: str, days: float) -> Authority | None:
    """The authority stored by `pem_with_key`, which signs for `days`. None if it expires before that, or if
    `pem` is not an authority."""
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return None
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.not_valid_after_utc < ends:
        return None
    return Authority(days=days, kept=Identity(certificate, key))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
