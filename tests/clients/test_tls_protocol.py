"""What `openssl s_client` gets from a listener: TLS 1.2 and 1.3, ciphers with forward secrecy, and neither
renegotiation, compression, tickets nor early data."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest

from barnabas.testing.cluster import Cluster

OPENSSL = shutil.which("openssl")
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed"),
]
SSL_3 = b"\3\0"
ALERT, HANDSHAKE = 21, 22
"""Types of a record."""
ANY = ["-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]
"""All that this library's client can offer, weak ones too."""
WEAK = (
    "NULL",
    "EXPORT",
    "DES",
    "3DES",
    "RC4",
    "MD5",
    "PSK",
    "SRP",
    "CAMELLIA",
    "aNULL",
    "kRSA",
    "SHA1",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, secure=True) as cluster:
        yield cluster


@pytest.fixture(params=["clients", "controllers"])
def listener(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    if request.param == "clients":
        return cluster.bootstrap
    listeners = cluster.node(cluster.node_ids[0])["listeners"]
    return str(listeners["CONTROLLER"]).rpartition("/")[2]


def s_client(address: str, *options: str, typed: str = "") -> tuple[bool, str]:
    """(whether there was a handshake, all that was printed)."""
    assert OPENSSL is not None
    done = subprocess.run(
        [OPENSSL, "s_client", "-connect", address, *options],
        input=typed, capture_output=True, text=True, timeout=30, check=False, errors="replace",
    )  # fmt: skip
    said = done.stdout + done.stderr
    refused = "Cipher is (NONE)" in said or "no peer certificate" in said or "CONNECTED" not in said
    return not refused, said


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_a_present_version_is_spoken(listener: str, version: str) -> None:
    spoken, said = s_client(listener, f"-{version}")
    # A controllers' listener agrees on a version, and ends a handshake without a certificate afterwards.
    assert spoken or "alert handshake failure" in said or "certificate required" in said, said
    assert ("TLSv1.3" if version == "tls1_3" else "TLSv1.2") in said, said


@pytest.mark.parametrize("version", ["tls1", "tls1_1"])
def test_an_old_version_is_refused(listener: str, version: str) -> None:
    spoken, said = s_client(listener, f"-{version}", *ANY)
    assert not spoken, said


def test_ssl_3_is_refused(listener: str) -> None:
    """Today's openssl cannot speak it, so that its greeting is written here (RFC 6101)."""
    ciphers = struct.pack(">HHHHH", 8, 0x0035, 0x002F, 0x000A, 0x0005)
    hello = SSL_3 + bytes(32) + b"\0" + ciphers + b"\1\0"
    message = b"\1" + len(hello).to_bytes(3, "big") + hello
    host, _, port = listener.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as stream:
        stream.sendall(bytes([HANDSHAKE]) + SSL_3 + struct.pack(">H", len(message)) + message)
        answer = stream.recv(4096)
    assert not answer or answer[0] == ALERT, answer


def test_only_strong_ciphers_are_chosen(cluster: Cluster) -> None:
    chosen = []
    offered = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
    while True:
        spoken, said = s_client(cluster.bootstrap, "-tls1_2", "-cipher", offered)
        if not spoken:
            break
        line = next(line for line in said.splitlines() if "Cipher is " in line)
        cipher = line.rpartition("Cipher is ")[2].strip()
        chosen.append(cipher)
        offered = f"ALL:COMPLEMENTOFALL:!{':!'.join(chosen)}:@SECLEVEL=0"
        assert len(chosen) < 60
    assert chosen, said
    for cipher in chosen:
        assert cipher.startswith(("ECDHE-", "DHE-")), chosen
        assert cipher.endswith(("GCM-SHA384", "GCM-SHA256", "CHACHA20-POLY1305")), chosen


@pytest.mark.parametrize("family", WEAK)
def test_a_weak_family_is_refused(listener: str, family: str) -> None:
    spoken, said = s_client(listener, "-tls1_2", "-cipher", f"{family}:@SECLEVEL=0")
    assert not spoken or "no cipher match" in said, said


def test_compression_tickets_and_early_data_are_off(cluster: Cluster) -> None:
    for version in ("-tls1_2", "-tls1_3"):
        _, said = s_client(cluster.bootstrap, version, "-comp")
        assert "Compression: NONE" in said, said
        assert "session ticket:" not in said.lower(), said
    assert "Early data was not sent" in said or "Max Early Data: 0" in said, said


def test_a_renegotiation_ends_the_connection(cluster: Cluster) -> None:
    _, said = s_client(cluster.bootstrap, "-tls1_2", "-legacy_renegotiation", typed="R\n")
    assert "RENEGOTIATING" in said and "no renegotiation" in said, said
    spoken, said = s_client(cluster.bootstrap, "-tls1_2")
    assert spoken and "Secure Renegotiation IS supported" in said
