"""SCRAM against the RFCs' own exchanges, and against everything that is not one."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security import SaslError
from barnabas.security.jaas import SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.security.plain import PlainServer
from barnabas.security.scram import (
    ScramClient,
    ScramServer,
    new_credential,
    new_salt,
    salted_password,
)
from barnabas.security.scram_credentials import parse_credential

CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
USER = new_credential(SCRAM_SHA_256, "pencil", SALT, 4096)


def server(mechanism: str = SCRAM_SHA_256, nonce: str = SERVER_NONCE) -> ScramServer:
    return ScramServer(mechanism, {"user": USER}.get, nonce, b"pepper")


def test_the_exchange_of_rfc_7677_is_spoken_by_both_ends() -> None:
    client, end = ScramClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE), server()
    assert client.first() == f"n,,n=user,r={CLIENT_NONCE}".encode()
    challenge = end.evaluate(client.first())
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = client.evaluate(challenge)
    assert final is not None and final.endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    verifier = end.evaluate(final)
    assert verifier == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.evaluate(verifier) is None
    assert client.is_done and end.user == "user"


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("name", ["alice", "a=b,c", "übung"])
def test_both_ends_agree_on_any_name(mechanism: str, name: str) -> None:
    credential = new_credential(mechanism, "p", b"salt", 4096)
    end = ScramServer(mechanism, {name: credential}.get, "server", b"")
    client = ScramClient(mechanism, name, "p", "client")
    final = client.evaluate(end.evaluate(client.first()))
    assert final is not None
    client.evaluate(end.evaluate(final))
    assert client.is_done and end.user == name


def final_message(first: bytes, challenge: bytes, nonce: str) -> bytes:
    """What a client with the right password writes, with a `nonce` of its choice."""
    salted = salted_password(SCRAM_SHA_256, b"pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    unproven = f"c=biws,r={nonce}".encode()
    signed = b",".join((first.removeprefix(b"n,,"), challenge, unproven))
    signature = hmac.digest(USER.stored_key, signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return unproven + b",p=" + base64.b64encode(proof)


@pytest.mark.parametrize(
    ("nonce", "is_accepted"),
    [
        (CLIENT_NONCE + SERVER_NONCE, True),
        (CLIENT_NONCE + CLIENT_NONCE + SERVER_NONCE, True),  # librdkafka before 2.6.1
        ("other" + CLIENT_NONCE + SERVER_NONCE, False),
        (SERVER_NONCE, False),
        (CLIENT_NONCE, False),
        (CLIENT_NONCE + CLIENT_NONCE, False),
    ],
)
def test_the_nonce_of_the_final_message_is_this_exchanges(nonce: str, is_accepted: bool) -> None:
    end, first = server(), f"n,,n=user,r={CLIENT_NONCE}".encode()
    final = final_message(first, end.evaluate(first), nonce)
    if is_accepted:
        end.evaluate(final)
    else:
        with pytest.raises(SaslError, match="another nonce"):
            end.evaluate(final)
    assert (end.user == "user") is is_accepted


def refusal(user: str, password: str) -> tuple[bytes, str]:
    """(challenge without its nonce, sentence) of an exchange that fails."""
    end, client = server(), ScramClient(SCRAM_SHA_256, user, password, "c")
    challenge = end.evaluate(client.first())
    final = client.evaluate(challenge)
    assert final is not None
    with pytest.raises(SaslError) as error:
        end.evaluate(final)
    assert end.user is None
    return challenge.partition(b",s=")[2], str(error.value)


def test_an_unknown_user_fails_as_a_wrong_password_does() -> None:
    wrong, unknown = refusal("user", "pen"), refusal("unknown", "pen")
    assert wrong[1] == unknown[1]
    assert unknown == refusal("unknown", "other"), "its salt must not change from one to the next"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"n",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=x",
        b"n,,r=x,n=user",
        b"p=tls-unique,,n=user,r=x",
        b"n,a=other,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=us=er,r=x",
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslError):
        server().evaluate(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"c=biws",
        b"c=biws,r=other,p=AAAA",
        b"c=eSws,r=NONCE,p=AAAA",
        b"c=biws,r=NONCE,p=!",
        b"c=biws,r=NONCE,p=AAAA",
        b"c=biws,r=NONCE,p=",
    ],
)
def test_a_malformed_final_message_is_refused(message: bytes) -> None:
    end = server()
    end.evaluate(b"n,,n=user,r=c")
    with pytest.raises(SaslError):
        end.evaluate(message.replace(b"NONCE", b"c" + SERVER_NONCE.encode()))
    assert end.user is None


@pytest.mark.slow
@given(st.lists(st.binary(max_size=80), max_size=4))
def test_no_bytes_let_a_stranger_in(messages: list[bytes]) -> None:
    for end in (server(), PlainServer({"user": "secret"})):
        for message in messages:
            try:
                end.evaluate(message)
            except SaslError:
                break
        assert end.user is None


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=AAAA,i=4096",
        b"r=cX,s=AAAA,i=1",
        b"r=cX,s=AAAA,i=999999999",
        b"r=cX,s=!,i=4096",
        b"e=other-error",
        b"",
    ],
)
def test_a_client_refuses_a_server_that_cheats(challenge: bytes) -> None:
    with pytest.raises(SaslError):
        ScramClient(SCRAM_SHA_256, "user", "p", "c").evaluate(challenge)


def test_a_client_refuses_a_server_without_its_credential() -> None:
    end, client = server(), ScramClient(SCRAM_SHA_256, "user", "pencil", "c")
    assert client.evaluate(end.evaluate(client.first())) is not None
    with pytest.raises(SaslError, match="does not know"):
        client.evaluate(b"v=AAAA")


def test_plain_takes_the_right_password_only() -> None:
    users = {"user": "secret", "empty": ""}
    end = PlainServer(users)
    assert end.evaluate(b"\0user\0secret") == b"" and end.user == "user"
    for token in (
        b"\0user\0wrong", b"\0nobody\0secret", b"\0empty\0x", b"\0empty\0", b"\0\0", b"user\0secret",
        b"other\0user\0secret", b"\0user\0secret\0", b"\0user\0\xff", b"",
    ):  # fmt: skip
        end = PlainServer(users)
        with pytest.raises(SaslError):
            end.evaluate(token)
        assert end.user is None


def test_a_credential_is_read_from_an_argument() -> None:
    record = parse_credential(
        "SCRAM-SHA-256=[name=user,password=pencil,salt=W22ZaJ0SNY7soEsUEjb6gQ==]", bytes
    )
    assert (record.name, record.mechanism, record.iterations) == ("user", 1, 4096)
    assert (record.stored_key, record.server_key) == (USER.stored_key, USER.server_key)


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-1=[name=a,password=secret]",
        "SCRAM-SHA-256=[password=secret]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=1]",
        "SCRAM-SHA-256=[name=a,saltedpassword=secret]",
        "SCRAM-SHA-256=[name=a,password=secret,colour=red]",
        "secret",
    ],
)
def test_a_wrong_argument_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_credential(text, bytes)
    assert "secret" not in str(error.value)


def test_a_salt_is_text_and_has_the_entropy_of_24_bytes() -> None:
    """kafka-ts decodes the challenge's salt as text, so that other bytes give another password."""
    chance = bytes(range(200, 224))
    salt = new_salt(lambda count: chance[:count])
    assert salt.isascii() and salt.decode().isprintable()
    assert base64.b64decode(salt) == chance
