"""`barnabas certificates check`: keys, chains, names, purposes and dates of files."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from typer.testing import CliRunner

from barnabas.cli.certificates.files import (
    OK,
    PROBLEM,
    UNKNOWN,
    WARNING,
    check_bundle,
    read_files,
)
from barnabas.cli.certificates.presented import presented
from barnabas.cli.commands.certificates import app
from barnabas.cli.failure import Failure
from barnabas.cli.local.certificate_authority import Authority, read_authority
from barnabas.cli.local.local_security import LocalSecurity
from barnabas.types import Endpoint

PASSWORD = "geheim"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority(days=90)


def results(files: list[Path], *, ca: Path | None = None, names: tuple[str, ...] = (),
            purpose: str = "server") -> dict[str, tuple[str, str]]:  # fmt: skip
    trusted = read_files([ca] if ca else [], "").certificates
    found = check_bundle(read_files(files, PASSWORD), names=names, purpose=purpose, trusted=trusted)
    return {finding.check: finding[1:] for finding in found}


def pem(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_pair_that_fits_passes(authority: Authority, tmp_path: Path) -> None:
    ca = pem(tmp_path, "ca.pem", authority.pem)
    identity = authority.identity("node-1")
    one = pem(tmp_path, "node.pem", identity.pem(PASSWORD))
    found = results([one], ca=ca, names=("127.0.0.1", "LOCALHOST", "::1"))
    assert {result for result, _ in found.values()} == {OK}
    split = [
        pem(tmp_path, "cert.pem", identity.certificate_pem),
        pem(tmp_path, "key.pem", identity.key_pem()),
    ]
    assert results(split, ca=ca)["key"][0] == OK
    assert results(split)["chain"][0] == UNKNOWN
    assert results([*split, ca])["chain"][0] == OK


def test_a_pkcs12_store_is_read(authority: Authority, tmp_path: Path) -> None:
    identity = authority.identity("node-1")
    store = tmp_path / "node.p12"
    how = serialization.BestAvailableEncryption(PASSWORD.encode())
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"node", identity.key, identity.certificate, [authority.certificate], how
        )
    )
    found = results([store])
    assert found["key"][0] == found["chain"][0] == OK
    with pytest.raises(Failure, match="the password is wrong") as refused:
        read_files([store], "another")
    assert "another" not in str(refused.value)


def test_a_key_of_another_certificate_is_a_problem(authority: Authority, tmp_path: Path) -> None:
    one, other = authority.identity("node-1"), authority.identity("node-2")
    mixed = pem(tmp_path, "mixed.pem", other.key_pem() + one.certificate_pem)
    assert results([mixed])["key"] == (
        PROBLEM,
        f"it does not belong to {one.certificate.subject.rfc4514_string()}",
    )
    alone = pem(tmp_path, "alone.pem", one.certificate_pem)
    assert results([alone])["key"][0] == PROBLEM
    late = pem(tmp_path, "late.pem", one.key_pem() + authority.pem + one.certificate_pem)
    assert "must be the first" in results([late])["key"][1]


def test_a_chain_that_others_do_not_trust_is_a_problem(
    authority: Authority, tmp_path: Path
) -> None:
    node = pem(tmp_path, "node.pem", authority.identity("node-1").pem())
    other = pem(tmp_path, "ca.pem", Authority("Another").pem)
    assert results([node], ca=other)["chain"][0] == PROBLEM
    whole = pem(tmp_path, "whole.pem", node.read_text() + authority.pem)
    assert "--ca does not have" in results([whole], ca=other)["chain"][1]


def test_names_dates_and_purposes_are_checked(authority: Authority, tmp_path: Path) -> None:
    identity = authority.identity("node-1", ("*.example.com",))
    node = pem(tmp_path, "node.pem", identity.pem())
    assert results([node], names=("a.example.com",))["names"][0] == OK
    for name in ("example.com", "a.b.example.com", "10.0.0.1"):
        assert results([node], names=(name,))["names"][0] == PROBLEM
    short = pem(tmp_path, "short.pem", Authority(days=5).identity("node-1").pem())
    assert results([short])["dates"][0] == WARNING
    ended = pem(tmp_path, "ended.pem", Authority(days=-0.02).identity("node-1").pem())
    assert "ended at" in results([ended])["dates"][1]
    root = pem(tmp_path, "root.pem", authority.pem_with_key)
    assert results([root])["purpose"][0] == PROBLEM


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xfe\xed\xfe\xed\0", "keytool -importkeystore"),
        (b"nothing", "no PEM or PKCS12 file"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be read"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "it cannot be read"),
    ],
)
def test_files_that_hold_none_are_refused(tmp_path: Path, data: bytes, sentence: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)
    with pytest.raises(Failure, match=sentence):
        read_files([file], PASSWORD)


def test_the_local_authority_renews_for_those_who_trust_it(tmp_path: Path) -> None:
    security = LocalSecurity(tmp_path)
    security.create([1, 2])
    folder = tmp_path / "security"
    trusted, former = (folder / "ca.pem").read_text(), (folder / "node-1.pem").read_text()
    assert (folder / "authority.pem").stat().st_mode & 0o777 == 0o600
    assert security.nodes() == [1, 2]
    assert not security.renew([1], 20)
    assert (folder / "ca.pem").read_text() == trusted
    assert (folder / "node-1.pem").read_text() != former
    assert results([folder / "node-1.pem"], ca=folder / "ca.pem")["chain"][0] == OK
    (folder / "authority.pem").unlink()  # of a cluster that kept none
    assert security.renew([1, 2], 20)
    assert (folder / "ca.pem").read_text().startswith(trusted)
    assert results([folder / "node-2.pem"], ca=folder / "ca.pem")["chain"][0] == OK


def test_an_authority_that_ends_too_soon_does_not_sign(authority: Authority) -> None:
    kept = authority.pem_with_key
    assert read_authority(kept, 89) is not None
    assert read_authority(kept, 91) is None and read_authority("no PEM", 1) is None


@contextmanager
def listener(file: Path) -> Iterator[Endpoint]:
    """One that shows the certificates of `file` to the client that comes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    def shake(server: socket.socket) -> None:
        with suppress(OSError):
            taken, _ = server.accept()
            with context.wrap_socket(taken, server_side=True) as secured:
                secured.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=shake, args=(server,))
        thread.start()
        yield Endpoint("127.0.0.1", server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.slow
def test_a_listener_is_listed_with_its_chain(authority: Authority, tmp_path: Path) -> None:
    identity = authority.identity("node-1")
    file = pem(tmp_path, "node.pem", identity.pem() + authority.pem)
    with listener(file) as at:
        assert presented(at) == [identity.certificate, authority.certificate]
    with listener(file) as at:
        listed = CliRunner().invoke(app, ["list", "--json", "--at", str(at)])
    (row,) = json.loads(listed.stdout)
    (issuer,) = row["chain"]
    assert row["subject"].startswith("CN=node-1") and issuer["subject"] == row["issuer"]
    with listener(file) as at:
        wide = CliRunner(env={"COLUMNS": "300"})
        table = wide.invoke(app, ["list", "--at", str(at)])
    assert row["fingerprint"] in table.stdout and issuer["fingerprint"] in table.stdout


def test_a_listener_that_speaks_no_tls_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = Endpoint("127.0.0.1", server.getsockname()[1])
    with pytest.raises(Failure, match=f"{at} cannot be reached"):
        presented(at)
