"""A delegation token as a SCRAM credential: both ends, its end, and what may not be seen of it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.security import SaslError
from barnabas.security.client_keys import client_security
from barnabas.security.delegation_tokens import TokenCredentials, TokenSecrets, password_of
from barnabas.security.jaas import SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.security.scram import ScramClient, ScramServer, new_credential
from barnabas.wire.envelope import principal_bytes, principal_of
from barnabas.wire.request import Proof

SECRETS = TokenSecrets("a-key-of-the-cluster")
TOKEN = "MTIzNDU2Nzg5MDEyMzQ1Ng"
WRONG = "Authentication failed during authentication due to invalid credentials"


class Cluster:
    """An image with one token of alice, and a date."""

    def __init__(self, secrets: TokenSecrets = SECRETS) -> None:
        self.image, self.wall_ms = MetadataImage(), 1_000
        record = DelegationTokenRecord(
            owner="User:alice", token_id=TOKEN, max_timestamp=9_000, expiration_timestamp=5_000
        )
        self.image.replay_batch([record], 0, 1)
        self.credentials = TokenCredentials(
            secrets, lambda: self.image, lambda: self.wall_ms, lambda size: b"s" * size
        )

    def server(self, mechanism: str = SCRAM_SHA_512) -> ScramServer:
        users = {TOKEN: new_credential(mechanism, "of-a-user", b"salt", 4096)}
        return ScramServer(
            mechanism, users.get, "server", b"", lambda name: self.credentials.find(mechanism, name)
        )


def exchange(server: ScramServer, client: ScramClient) -> None:
    final = client.evaluate(server.evaluate(client.first()))
    assert final is not None
    client.evaluate(server.evaluate(final))


def client(mechanism: str = SCRAM_SHA_512, user: str = TOKEN, **changed: Any) -> ScramClient:
    password = changed.pop("password", password_of(SECRETS.hmac_of(TOKEN)))
    return ScramClient(mechanism, user, password, "client", **{"by_token": True, **changed})


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_a_token_authenticates_its_owner_until_it_ends(mechanism: str) -> None:
    server, by_token = Cluster().server(mechanism), client(mechanism)
    assert by_token.first() == f"n,,n={TOKEN},r=client,tokenauth=true".encode()
    exchange(server, by_token)
    assert by_token.is_done
    assert (server.user, server.is_token, server.ends_at_ms) == ("alice", True, 5_000)


def test_a_user_named_like_a_token_is_not_the_token() -> None:
    server = Cluster().server()
    exchange(server, client(password="of-a-user", by_token=False))
    assert (server.user, server.is_token, server.ends_at_ms) == (TOKEN, False, None)
    for wrong in (client(by_token=False), client(password="of-a-user")):
        with pytest.raises(SaslError, match=WRONG):
            exchange(Cluster().server(), wrong)


def test_expired_unknown_and_disabled_tokens_fail_alike() -> None:
    cluster = Cluster()
    for server, by_token in (
        (Cluster().server(), client(user="bm8tc3VjaC10b2tlbiEhIQ")),
        (Cluster(TokenSecrets(None)).server(), client()),
        (Cluster(TokenSecrets("another-key")).server(), client()),
        (ScramServer(SCRAM_SHA_512, lambda name: None, "server", b""), client()),
    ):
        with pytest.raises(SaslError, match=WRONG):
            exchange(server, by_token)
        assert server.user is None
    cluster.wall_ms = 5_001
    with pytest.raises(SaslError, match=WRONG):
        exchange(cluster.server(), client())


@pytest.mark.parametrize(
    "extension", ["tokenauth=True", "x=y,tokenauth=true", "tokenauth=true,x=y"]
)
def test_the_extension_is_read_as_java_reads_it(extension: str) -> None:
    server = Cluster().server()
    server.evaluate(f"n,,n={TOKEN},r=client,{extension}".encode())
    assert server.is_token


@pytest.mark.parametrize(
    "extension", ["", ",tokenauth=false", ",xtokenauth=true", ",tokenauth=true2"]
)
def test_other_extensions_name_no_token(extension: str) -> None:
    server = Cluster().server()
    server.evaluate(f"n,,n={TOKEN},r=client{extension}".encode())
    assert not server.is_token


def test_the_token_of_an_hmac_is_found_while_it_is_there() -> None:
    tokens = {str(n): DelegationTokenRecord(token_id=str(n)) for n in range(50)}
    secrets = TokenSecrets("key")
    hmac = secrets.hmac_of("7")
    assert secrets.find(tokens, hmac) is tokens["7"]
    del tokens["7"]
    assert secrets.find(tokens, hmac) is None
    tokens["new"] = DelegationTokenRecord(token_id="new")
    assert secrets.find(tokens, secrets.hmac_of("new")) is tokens["new"]
    assert secrets.find(tokens, b"short") is None


def test_client_properties_name_a_token_as_in_java() -> None:
    def credential(extra: str) -> Any:
        return client_security(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
                f' username="id" password="top-secret" {extra};',
            }
        ).sasl

    assert credential('tokenauth="true"').by_token
    assert not credential("").by_token and not credential('tokenauth="false"').by_token
    assert "top-secret" not in repr(credential('tokenauth="true"'))


def test_an_envelope_says_that_a_token_was_shown() -> None:
    assert principal_of(principal_bytes("User:a", Proof.TOKEN)) == ("User:a", Proof.TOKEN)
    assert principal_of(principal_bytes("User:a", Proof.OWN)) == ("User:a", Proof.OWN)
    assert b"key" not in repr(TokenSecrets("key")).encode()
