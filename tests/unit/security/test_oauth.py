"""OAUTHBEARER: which tokens are believed, and what a listener and our client make of them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.network.channels import ChannelError
from barnabas.config.definition import ConfigError
from barnabas.host.tls_contexts import HostSecrets
from barnabas.host.web import HostWeb
from barnabas.ports import WebRequest
from barnabas.security import SaslError
from barnabas.security.client_keys import client_security
from barnabas.security.oauth.frames import INVALID_TOKEN, format_first, parse_first
from barnabas.security.oauth.json_web_tokens import (
    KeySetError,
    TokenRefused,
    TokenRules,
    check_token,
    parse_key_set,
)
from barnabas.security.oauth.login import OAuthLogin, TokenKeeper, obtain_token
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse
from tests.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider, SigningKey
from tests.unit.security.test_connections import AUTHORITY, Scene, SecureWorld

KEY = SigningKey("one")
NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RULES = TokenRules(ISSUER, (AUDIENCE, "other"))
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def key_set(*keys: SigningKey) -> bytes:
    return json.dumps({"keys": [key.published() for key in keys]}).encode()


KEYS = parse_key_set(key_set(KEY))


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsigned(header: dict[str, Any], signature: str = "") -> str:
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": NOW_S, "exp": NOW_S + 60}
    return f"{part(header)}.{part(claims)}.{signature}"


def with_public_key_as_secret() -> str:
    """HS256 whose secret is the published key, in the form that libraries confuse."""
    from cryptography.hazmat.primitives import serialization

    pem = KEY.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = unsigned({"alg": "HS256", "kid": "one"}).rstrip(".")
    made = hmac.new(pem, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


def test_a_token_of_the_issuer_is_believed() -> None:
    claims = check_token(KEY.token(now=NOW_S), KEYS, RULES, NOW_MS)
    assert claims == ("alice", NOW_MS + 3_600_000, frozenset({"kafka"}))


def test_claims_may_have_other_names() -> None:
    rules = TokenRules(scope_claim="scp", subject_claim="client")
    token = KEY.token(now=NOW_S, sub=None, client=" bob ", scp=["a", "b"])
    assert check_token(token, KEYS, rules, NOW_MS)[::2] == ("bob", frozenset({"a", "b"}))


def test_clocks_may_differ_by_the_skew() -> None:
    assert check_token(KEY.token(now=NOW_S - 60, lasts_s=40), KEYS, RULES, NOW_MS)
    assert check_token(KEY.token(now=NOW_S + 20), KEYS, RULES, NOW_MS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("token", "why"),
    [
        (lambda: KEY.token(now=NOW_S - 60, lasts_s=30), "expired"),
        (lambda: KEY.token(now=NOW_S, nbf=NOW_S + 60), "not yet valid"),
        (lambda: KEY.token(now=NOW_S + 60), "issued in the future"),
        (lambda: KEY.token(now=NOW_S, iss="https://evil.example"), "another issuer"),
        (lambda: KEY.token(now=NOW_S, iss=None), "another issuer"),
        (lambda: KEY.token(now=NOW_S, aud="elsewhere"), "another audience"),
        (lambda: KEY.token(now=NOW_S, aud=None), "another audience"),
        (lambda: KEY.token(now=NOW_S, sub=None), "no usable claim sub"),
        (lambda: KEY.token(now=NOW_S, sub=" "), "no usable claim sub"),
        (lambda: KEY.token(now=NOW_S, exp=None), "no claim exp"),
        (lambda: KEY.token(now=NOW_S, iat=None), "no claim iat"),
        (lambda: KEY.token(now=NOW_S, exp="soon"), "no claim exp|malformed"),
        (lambda: KEY.token(now=NOW_S, exp=10**30), "no date"),
        (lambda: SigningKey("two").token(now=NOW_S), "no key of the id"),
        (lambda: SigningKey("one").token(now=NOW_S), "no key of the issuer has signed"),
        (lambda: unsigned({"alg": "none"}), "not signed"),
        (lambda: unsigned({"alg": "NONE", "kid": "one"}), "not signed"),
        (lambda: unsigned({"kid": "one"}), "not signed"),
        (with_public_key_as_secret, "not signed"),
        (lambda: unsigned({"alg": "ES256", "kid": "one"}), "not that of its issuer's key"),
        (lambda: unsigned({"alg": "RS256", "kid": "one", "crit": ["b64"]}), "not understood"),
        (lambda: unsigned({"alg": "RS256", "kid": ["one"]}), "not understood"),
        (lambda: unsigned({"alg": "RS256", "kid": "k" * 2000}), "too long"),
        (lambda: KEY.token(now=NOW_S, more="x" * 100_000), "longer than"),
        (lambda: "", "no signed JSON Web Token"),
        (lambda: "a.b", "no signed JSON Web Token"),
        (lambda: "a.b.c.d.e", "no signed JSON Web Token"),
        (lambda: "!.!.!", "malformed"),
        (lambda: part([1]) + ".a.b", "malformed"),
        (lambda: KEY.token(now=NOW_S)[:-8] + "AAAAAAAA", "no key of the issuer has signed"),
    ],
)
def test_another_token_is_refused(token: Callable[[], str], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        check_token(token(), KEYS, RULES, NOW_MS)


def test_a_token_without_a_key_id_is_tried_with_each_key() -> None:
    import jwt

    keys = parse_key_set(key_set(SigningKey("two"), KEY))
    claims = {"sub": "x", "iat": NOW_S, "exp": NOW_S + 60}
    token = jwt.encode(claims, KEY.private, "RS256")
    assert check_token(token, keys, TokenRules(), NOW_MS).subject == "x"


@pytest.mark.parametrize(
    "document",
    [
        b"", b"[]", b"[" * 100_000, b'{"keys": 1}', b'{"keys": []}', b'{"keys": [1, {"kty": "RSA"}]}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}',
        json.dumps({"keys": [{**KEY.published(), "use": "enc"}]}).encode(),
        json.dumps({"keys": [{**KEY.published(), "alg": "none"}]}).encode(),
        key_set(SigningKey("weak", 1024)),
    ],
)  # fmt: skip
def test_a_document_without_a_usable_key_is_refused(document: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_key_set(document)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer \x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01", b"n,,\x01auth=Bearer t\x01", b"\xff" * 20, b"n,," + b"a" * 9,
    ],
)  # fmt: skip
def test_a_first_message_of_another_form_is_refused(message: bytes) -> None:
    with pytest.raises(SaslError):
        parse_first(message)


def test_a_first_message_is_read_as_it_was_written() -> None:
    assert parse_first(format_first("a.b.c", {"traceId": "7"})) == ("a.b.c", "", {"traceId": "7"})
    assert parse_first(b"n,a=al=2Cice,\x01auth=bearer  t\x01\x01")[:2] == ("t", "al,ice")


# -- a listener and our client ---------------------------------------------------------------------------


class Now:
    """``ports.Background``: a job is done by the time that its caller continues."""

    def run(self, queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            found = job()
        except Exception as error:  # noqa: BLE001 - it is handed to `done`
            found = error
        done(found)


class WebWorld(SecureWorld):
    """Wall clock of the tokens, a real network for keys and tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.background = Now()  # type: ignore[assignment]
        self.web = HostWeb(self.secrets.client_context)
        self.began_ms = NOW_MS

    def wall_ms(self) -> int:
        return self.began_ms + int(self.now)


def scene_of(provider: IdentityProvider, **extra: str) -> Scene:
    keys = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "listener.name.ext.oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.common"
        ".security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    }
    return Scene("SASL_PLAINTEXT", WebWorld(), keys | extra)


def login(provider: IdentityProvider, **extra: str) -> dict[str, str]:
    start = "sasl.oauthbearer.client.credentials.client."
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        start + "id": CLIENT,
        start + "secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
        **extra,
    }


def at_now(provider: IdentityProvider, scene: Scene) -> None:
    """Tokens are issued by the clock of the scene."""
    provider.token = lambda **claims: provider.keys[-1].token(  # type: ignore[method-assign]
        **{"lasts_s": provider.lasts_s, "now": scene.world.wall_ms() / 1000, **claims}
    )


@pytest.mark.slow
def test_a_client_with_credentials_gets_a_token_and_is_known_by_it() -> None:
    with IdentityProvider() as provider:
        scene = scene_of(provider)
        at_now(provider, scene)
        channels = scene.client(login(provider))
        assert isinstance(scene.ask(channels), DescribeClusterResponse)
    assert scene.principals == ["User:alice"]
    assert provider.forms[-1]["scope"] == ["kafka"]
    assert provider.asked == ["/jwks", "/token"]


@pytest.mark.slow
def test_a_session_ends_with_its_token_and_is_renewed_before() -> None:
    with IdentityProvider(lasts_s=10) as provider:
        scene = scene_of(provider, **{"connections.max.reauth.ms": "60000"})
        at_now(provider, scene)
        channels = scene.client(login(provider))
        for _ in range(4):
            assert isinstance(scene.ask(channels), DescribeClusterResponse)
            scene.pass_ms(9_000)
        [connection] = scene.server.connections.values()
    assert provider.asked.count("/token") == 4
    assert scene.listeners.stages["EXT"].sasl.succeeded == 4  # type: ignore[union-attr]
    assert connection.principal == "User:alice"


@pytest.mark.slow
def test_a_refused_token_is_answered_as_kafka_does_and_its_reason_logged() -> None:
    with IdentityProvider() as provider:
        scene = scene_of(provider)
        provider.token = lambda **claims: provider.keys[0].token(now=0)  # type: ignore[method-assign]
        channels = scene.client(login(provider))
        scene.ask(channels)
        scene.pass_ms(200)
    [answer] = scene.answers
    assert isinstance(answer, ChannelError) and INVALID_TOKEN in answer.message
    [(_, event, fields)] = scene.world.lines
    assert event == "connection.authentication_failed"
    assert fields["reason"] == "the token has expired"
    assert not scene.principals


@pytest.mark.slow
def test_a_key_that_is_new_is_read_and_an_old_one_no_longer_believed() -> None:
    with IdentityProvider() as provider:
        scene = scene_of(provider)
        at_now(provider, scene)
        provider.keys = [SigningKey("two")]
        scene.pass_ms(20_000)
        scene.ask(scene.client(login(provider)))
        scene.pass_ms(200)
        assert isinstance(scene.answers[-1], ChannelError), "the first asks for the new key"
        assert isinstance(scene.ask(scene.client(login(provider))), DescribeClusterResponse)
        for _ in range(3):
            provider.keys = [SigningKey("three")]
            scene.ask(scene.client(login(provider)))
            scene.pass_ms(200)
        assert provider.asked.count("/jwks") == 2, "strangers must not cause a question each"


@pytest.mark.slow
def test_keys_that_cannot_be_read_again_stay_in_use() -> None:
    with IdentityProvider() as provider:
        scene = scene_of(provider, **{"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "0"})
        at_now(provider, scene)
        provider.faults = [500]
        scene.pass_ms(3_600_001)
        assert isinstance(scene.ask(scene.client(login(provider))), DescribeClusterResponse)
    assert [event for _, event, _ in scene.world.lines] == ["oauth.keys_not_read"]


@pytest.mark.slow
def test_a_token_and_keys_may_be_files(tmp_path: Path) -> None:
    provider = IdentityProvider()
    provider.write_jwks(tmp_path / "keys.json")
    scene = scene_of(
        provider, **{"sasl.oauthbearer.jwks.endpoint.url": f"file://{tmp_path}/keys.json"}
    )
    (tmp_path / "token").write_text(provider.token(now=NOW_S) + "\n")
    url = {"sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token"}
    assert isinstance(scene.ask(scene.client(login(provider, **url))), DescribeClusterResponse)
    provider.__exit__() if provider._thread.is_alive() else provider._server.server_close()


@pytest.mark.slow
def test_a_provider_over_tls_is_believed_by_its_authority(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    trust = (
        f'{MODULE} ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path}/ca.pem"'
        f' clientId="{CLIENT}" clientSecret="{SECRET}";'
    )
    with IdentityProvider(AUTHORITY) as provider:
        scene = scene_of(provider, **{"listener.name.ext.oauthbearer.sasl.jaas.config": trust})
        at_now(provider, scene)
        own = login(provider, **{"sasl.jaas.config": trust})
        assert isinstance(scene.ask(scene.client(own)), DescribeClusterResponse)
        stranger = HostWeb(HostSecrets(lambda *_, **__: None).client_context)
        with pytest.raises(OSError, match="is not trusted"):
            stranger.fetch(WebRequest(provider.jwks_url))


@pytest.mark.slow
def test_a_provider_that_fails_for_a_while_is_asked_again() -> None:
    with IdentityProvider() as provider:
        web = HostWeb(HostSecrets(lambda *_, **__: None).client_context)
        provider.faults = [503, 429, 500]
        request = WebRequest(provider.jwks_url, retry_ms=1, retry_max_ms=10_000)
        assert web.fetch(request) == provider.jwks()
        provider.faults = [404]
        with pytest.raises(OSError, match="status 404"):
            web.fetch(request)
        provider.faults = [302]
        with pytest.raises(OSError, match="status 302"):
            web.fetch(request)


@pytest.mark.slow
def test_an_answer_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas import limits

    monkeypatch.setattr(limits, "WEB_ANSWER_BYTES_MAX", 100)
    with IdentityProvider() as provider, pytest.raises(OSError, match="more than 100 bytes"):
        HostWeb(HostSecrets(lambda *_, **__: None).client_context).fetch(
            WebRequest(provider.jwks_url)
        )


@pytest.mark.parametrize("answer", [b"{", b"[" * 200_000], ids=["malformed", "deeply nested"])
def test_an_answer_that_is_no_json_is_an_error_without_its_text(answer: bytes) -> None:
    class Provider:
        def fetch(self, request: WebRequest) -> bytes:
            return answer

    login = OAuthLogin(WebRequest("https://provider/token"))
    with pytest.raises(OSError, match="https://provider/token answers no JSON"):
        obtain_token(login, Provider(), lambda: NOW_MS)


@pytest.mark.slow
def test_wrong_client_credentials_show_no_secret() -> None:
    wrong = {"sasl.oauthbearer.client.credentials.client.secret": "not-it-7"}
    with IdentityProvider() as provider:
        security = client_security(login(provider, **wrong))
        assert security.sasl is not None and security.sasl.login is not None
        assert "not-it-7" not in repr(security)
        keeper = TokenKeeper(security.sasl.login)
        with pytest.raises(SaslError, match="status 401") as refused:
            keeper.exchange_now(WebWorld().web, lambda: NOW_MS)
    assert "not-it-7" not in str(refused.value)


@pytest.mark.slow
def test_a_listener_takes_any_audience_where_it_is_allowed_to() -> None:
    start = "sasl.oauthbearer."
    either = {f"{start}expected.audience": "", f"{start}allow.unverified.audience": "true"}
    with IdentityProvider() as provider:
        scene_of(provider, **either)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, "a listener that takes tokens needs it"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://x/y"}, "must begin with https"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///no/such/file"}, "it has no keys"),
        ({"sasl.server.callback.handler.class": "com.example.Mine"}, "Java does not run here"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "must name a claim"),
        ({"sasl.oauthbearer.expected.audience": ""}, "tokens of any audience would be taken"),
        ({"sasl.oauthbearer.expected.issuer": ""}, "tokens of any issuer would be taken"),
    ],
)
def test_settings_of_a_listener_that_cannot_work_end_the_start(
    extra: dict[str, str], why: str
) -> None:
    own = "listener.name.ext.oauthbearer.sasl.server.callback.handler.class"
    if "sasl.server.callback.handler.class" in extra:
        extra = {own: extra["sasl.server.callback.handler.class"]}
    with IdentityProvider() as provider, pytest.raises(ConfigError, match=why):
        scene_of(provider, **extra)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "OAUTHBEARER needs it"),
        ({"sasl.oauthbearer.client.credentials.client.secret": ""}, "needs a client id"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://a:b@c/d"}, "and no user"),
        ({"sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="x";'}, "must be signed"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "Java does not run here"),
    ],
)
def test_settings_of_a_client_that_cannot_work_are_refused(extra: dict[str, str], why: str) -> None:
    provider = IdentityProvider()
    provider._server.server_close()
    with pytest.raises(ConfigError, match=why):
        client_security(login(provider, **extra))
