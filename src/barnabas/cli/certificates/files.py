"""Certificates and keys in files, checked before a node gets them: PEM, in one file or several, and PKCS12.

Each check is a :class:`FileFinding`. What the files alone cannot say (is the missing issuer a root that
clients trust?) is unknown until `--ca` names the trusted ones.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID

from barnabas.cli.certificates.presented import names_of, seconds_left
from barnabas.cli.failure import Failure
from barnabas.security.certificate_watch import DAY_S, WARNING_DAYS

PEM_MARK = b"-----BEGIN"
OK, PROBLEM, UNKNOWN, WARNING = "ok", "problem", "unknown", "warning"
RSA_BITS_MIN = 2048
WEAK_HASHES = ("md5", "sha1")
PURPOSES = {
    "server": ExtendedKeyUsageOID.SERVER_AUTH,
    "client": ExtendedKeyUsageOID.CLIENT_AUTH,
}


class FileFinding(NamedTuple):
    """One check: `result` is one of `OK`, `PROBLEM`, `UNKNOWN`, `WARNING`."""

    check: str
    result: str
    says: str


@dataclass
class Bundle:
    """The content of files, in their order."""

    certificates: list[x509.Certificate] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    """The public side of each private key, as DER."""


def read_files(files: Sequence[Path], password: str) -> Bundle:
    """Raises :class:`Failure`; no message has the password."""
    bundle = Bundle()
    for file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise Failure(f"{file} cannot be read: {error.strerror}") from error
        if PEM_MARK in data:
            _read_pem(file, data, password, bundle)
        else:
            _read_pkcs12(file, data, password, bundle)
    return bundle


def _read_pem(file: Path, data: bytes, password: str, bundle: Bundle) -> None:
    try:
        if b"BEGIN CERTIFICATE" in data:
            bundle.certificates += x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise Failure(f"{file} has a certificate that cannot be read: {error}") from error
    if b"PRIVATE KEY" not in data:
        return
    encrypted = b"ENCRYPTED" in data
    try:
        found = serialization.load_pem_private_key(data, password.encode() if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = "the password does not open it" if encrypted else "it cannot be read"
        raise Failure(f"{file} has a private key, and {why}") from error
    bundle.keys.append(_public(found.public_key()))


def _read_pkcs12(file: Path, data: bytes, password: str, bundle: Bundle) -> None:
    if data[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        raise Failure(
            f"{file} is a JKS store; convert it: keytool -importkeystore -srckeystore {file}"
            f" -destkeystore {file}.p12 -deststoretype PKCS12"
        )
    try:
        found = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError as error:
        raise Failure(f"{file} is no PEM or PKCS12 file, or the password is wrong") from error
    if found.key is not None:
        bundle.keys.append(_public(found.key.public_key()))
    if found.cert is not None:
        bundle.certificates.append(found.cert.certificate)
    bundle.certificates += [
        additional_cert.certificate for additional_cert in found.additional_certs
    ]


def check_bundle(
    bundle: Bundle, *, names: Sequence[str], purpose: str, trusted: Sequence[x509.Certificate]
) -> list[FileFinding]:
    """`purpose` is a key of `PURPOSES`; clients connect by `names`. Raises :class:`Failure`."""
    if not bundle.certificates:
        raise Failure("there is no certificate in it")
    leaf, key = _leaf_and_key(bundle)
    return [
        key,
        _chain(leaf, bundle.certificates, trusted),
        *_names(leaf, names, purpose),
        _purpose(leaf, purpose),
        _dates(
            [leaf, *(certificate for certificate in bundle.certificates if certificate is not leaf)]
        ),
        _strength(leaf),
    ]


def _public(key: object) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.DER, form)  # type: ignore[attr-defined, no-any-return]


def _leaf_and_key(bundle: Bundle) -> tuple[x509.Certificate, FileFinding]:
    """The certificate that the key fits, else the first."""
    first = bundle.certificates[0]
    if not bundle.keys:
        return first, FileFinding("key", PROBLEM, "there is no private key")
    for certificate in bundle.certificates:
        if _public(certificate.public_key()) in bundle.keys:
            name = certificate.subject.rfc4514_string()
            if certificate is not first:
                says = f"it fits {name}, which must be the first certificate"
                return certificate, FileFinding("key", PROBLEM, says)
            return certificate, FileFinding("key", OK, f"it fits {name}")
    says = f"it does not belong to {first.subject.rfc4514_string()}"
    return first, FileFinding("key", PROBLEM, says)


def _chain(
    leaf: x509.Certificate,
    sent: Sequence[x509.Certificate],
    trusted: Sequence[x509.Certificate],
) -> FileFinding:
    """From the leaf to a certificate that signed itself, or to the first issuer that is not there."""
    path = [leaf]
    while not _signed(path[-1], path[-1]):
        above = next(
            (certificate for certificate in (*sent, *trusted) if _signed(path[-1], certificate)),
            None,
        )
        if above is None or above in path:
            issuer = path[-1].issuer.rfc4514_string()
            if trusted:
                return FileFinding("chain", PROBLEM, f"the issuer {issuer} is not there")
            says = f"it ends at {issuer}; name the trusted certificates with --ca to check it"
            return FileFinding("chain", UNKNOWN, says)
        if not _is_authority(above):
            says = f"{above.subject.rfc4514_string()} may not sign certificates"
            return FileFinding("chain", PROBLEM, says)
        path.append(above)
    root = path[-1].subject.rfc4514_string()
    if trusted and path[-1] not in trusted:
        return FileFinding("chain", PROBLEM, f"it ends at {root}, which --ca does not have")
    return FileFinding(
        "chain", OK, " <- ".join(certificate.subject.rfc4514_string() for certificate in path)
    )


def _signed(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _names(leaf: x509.Certificate, wanted: Sequence[str], purpose: str) -> list[FileFinding]:
    found = names_of(leaf)
    if not found:
        result = PROBLEM if purpose == "server" else OK
        return [FileFinding("names", result, "it has no subject alternative names")]
    missing = [
        name for name in wanted if not any(_covers(certificate, name) for certificate in found)
    ]
    if missing:
        return [
            FileFinding("names", PROBLEM, f"{', '.join(missing)} is not among {', '.join(found)}")
        ]
    return [FileFinding("names", OK, ", ".join(found))]


def _covers(pattern: str, name: str) -> bool:
    try:
        return ipaddress.ip_address(pattern) == ipaddress.ip_address(name)
    except ValueError:
        pattern, name = pattern.lower(), name.lower()
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name


def _purpose(leaf: x509.Certificate, purpose: str) -> FileFinding:
    if _is_authority(leaf):
        return FileFinding("purpose", PROBLEM, "it is an authority's certificate, and no node's")
    try:
        extensions = leaf.extensions
        uses = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return FileFinding("purpose", OK, "any")
    has = [name for name, oid in PURPOSES.items() if oid in uses]
    if purpose not in has:
        return FileFinding(
            "purpose", PROBLEM, f"it is not for a {purpose}: {', '.join(has) or 'none'}"
        )
    if len(has) < len(PURPOSES):
        says = f"{purpose} only: a node that also connects with it, by mutual TLS, needs both"
        return FileFinding("purpose", WARNING if purpose == "server" else OK, says)
    return FileFinding("purpose", OK, ", ".join(has))


def _dates(certificates: Sequence[x509.Certificate]) -> FileFinding:
    now = datetime.now(UTC)
    for certificate in certificates:
        name = certificate.subject.rfc4514_string()
        if certificate.not_valid_before_utc > now:
            return FileFinding(
                "dates", PROBLEM, f"{name} begins at {certificate.not_valid_before_utc}"
            )
        if certificate.not_valid_after_utc < now:
            return FileFinding(
                "dates", PROBLEM, f"{name} ended at {certificate.not_valid_after_utc}"
            )
    first = min(certificates, key=seconds_left)
    days = seconds_left(first) // DAY_S
    says = f"{first.subject.rfc4514_string()} ends in {days} days"
    return FileFinding("dates", WARNING if days < WARNING_DAYS else OK, says)


def _strength(leaf: x509.Certificate) -> FileFinding:
    key, algorithm = leaf.public_key(), leaf.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < RSA_BITS_MIN:
        says = f"RSA of {key.key_size} bits: TLS libraries refuse fewer than {RSA_BITS_MIN}"
        return FileFinding("strength", PROBLEM, says)
    if algorithm is not None and algorithm.name in WEAK_HASHES:
        return FileFinding("strength", PROBLEM, f"it is signed with {algorithm.name}")
    return FileFinding("strength", OK, f"{type(key).__name__.removesuffix('PublicKey')} key")
