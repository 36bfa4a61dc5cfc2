"""TLS and SASL between our client and our server, in a world in memory: what is let in, what is bounded."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pytest

from barnabas import limits
from barnabas.cli.local.certificate_authority import Authority, Identity
from barnabas.client.network.channels import ChannelError, Channels
from barnabas.config.definition import ConfigError
from barnabas.config.node import NodeConfig
from barnabas.host.tls_contexts import HostSecrets
from barnabas.node.api_tables import add_sasl
from barnabas.node.dynamic_security import DynamicSecurity
from barnabas.node.listeners import Listeners
from barnabas.security.client_keys import client_security
from barnabas.security.client_security import ClientSecurity
from barnabas.security.node_security import NodeSecurity
from barnabas.security.scram import ScramCredential, new_credential
from barnabas.types import Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.api_versions import Features
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse
from barnabas.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from barnabas.wire.request import Api, RequestContext
from tests.unit.client.loopback import Stream, World

AUTHORITY = Authority()
NODE = AUTHORITY.identity("node-1")
AT = Endpoint("127.0.0.1", 9092)
API = Api(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, top_level_error(DescribeClusterResponse))
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SCRAM_USER = new_credential("SCRAM-SHA-256", "s-secret", b"salt", 4096)


class SecureWorld(World):
    def __init__(self, chunk: int = 1 << 20) -> None:
        super().__init__(chunk)
        self.secrets = HostSecrets(self.log)


def pem_properties(identity: Identity = NODE) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": identity.certificate_pem,
        "ssl.keystore.key": identity.key_pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem,
    }


def node_properties(protocol: str, **extra: str) -> dict[str, str]:
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "EXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": f"EXT:{protocol},CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "EXT",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": "/d",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.ext.plain.sasl.jaas.config": f'{PLAIN} username="a" password="p" user_a="p";',
        **pem_properties(),
        **extra,
    }


def credentials(mechanism: str, user: str) -> ScramCredential | None:
    return SCRAM_USER if (mechanism, user) == ("SCRAM-SHA-256", "bob") else None


class Scene:
    """A node's client listener and a client of it. `principals` are those of the requests served."""

    def __init__(
        self, protocol: str, world: World | None = None, extra: dict[str, str] | None = None
    ) -> None:
        self.world = world or SecureWorld()
        self.principals: list[str] = []
        self.answers: list[Any] = []
        config = NodeConfig.from_properties({**node_properties(protocol), **(extra or {})})
        self.listeners = Listeners(self.world, config, Features, credentials)
        self.listeners.bind()
        self.dynamic = DynamicSecurity(self.world, config, self.listeners, {})
        self.server = self.listeners.servers["EXT"]
        self.server.table.add_handler(API, self._serve, None)
        add_sasl(self.server.table)

    def _serve(
        self, request: DescribeClusterRequest, ctx: RequestContext, role: object
    ) -> DescribeClusterResponse:
        self.principals.append(ctx.principal)
        return DescribeClusterResponse(cluster_id="x" * 100_000, error_message=None)

    def client(self, properties: dict[str, str] | ClientSecurity) -> Channels:
        security = (
            properties if isinstance(properties, ClientSecurity) else client_security(properties)
        )
        return Channels(self.world, "c", security=security)

    def ask(self, channels: Channels, at: Endpoint = AT) -> Any:
        channels.send(at, DescribeClusterRequest(), self.answers.append, timeout_ms=5_000)
        self.world.run()
        return self.answers[-1] if self.answers else None

    def pass_ms(self, duration_ms: float) -> None:
        self.world.run(self.world.now + duration_ms)

    def raw(self, frames: bytes) -> list[str]:
        """What is logged of a peer that sends these bytes."""
        stream, receiver = Stream(self.world, Endpoint("peer", 1)), self.world.listeners[AT]()
        stream.receiver = receiver
        receiver.on_connected(stream)
        at = 0
        while at < len(frames) and not stream.ended:
            view = receiver.get_buffer()
            size = min(len(view), len(frames) - at)
            view[:size] = frames[at : at + size]
            receiver.buffer_updated(size)
            at += size
        self.world.run()
        return [event for _, event, _ in self.world.lines]


def client_properties(protocol: str, **extra: str) -> dict[str, str]:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem}
    return {"security.protocol": protocol, **trust, **extra}


def sasl(mechanism: str, user: str, password: str) -> dict[str, str]:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} username="{user}" password="{password}";',
    }


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_a_client_is_answered_over_tls_in_any_pieces(chunk: int) -> None:
    scene = Scene("SSL", SecureWorld(chunk))
    answer = scene.ask(scene.client(client_properties("SSL")))
    assert isinstance(answer, DescribeClusterResponse) and len(answer.cluster_id) == 100_000
    assert scene.principals == ["User:ANONYMOUS"]


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [("PLAIN", "a", "p"), ("SCRAM-SHA-256", "bob", "s-secret")],
)
def test_a_user_is_the_principal_of_its_requests(
    protocol: str, mechanism: str, user: str, password: str
) -> None:
    scene = Scene(protocol)
    channels = scene.client(client_properties(protocol, **sasl(mechanism, user, password)))
    assert isinstance(scene.ask(channels), DescribeClusterResponse)
    assert isinstance(scene.ask(channels), DescribeClusterResponse)
    assert scene.principals == [f"User:{user}"] * 2
    assert not scene.listeners.stages["EXT"].sasl.pending  # type: ignore[union-attr]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("user", "password"), [("a", "x"), ("bob", "x"), ("unknown", "x")])
def test_a_stranger_is_refused_after_a_delay(mechanism: str, user: str, password: str) -> None:
    scene = Scene("SASL_PLAINTEXT")
    channels = scene.client(client_properties("SASL_PLAINTEXT", **sasl(mechanism, user, password)))
    assert scene.ask(channels) is None, "the answer must not come at once"
    scene.pass_ms(200)
    [answer] = scene.answers
    assert isinstance(answer, ChannelError) and answer.kind == "authentication"
    assert "credentials" in answer.message or "Invalid username or password" in answer.message
    events = [event for _, event, _ in scene.world.lines]
    assert events == ["connection.authentication_failed"] and not scene.principals


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    scene = Scene("SASL_PLAINTEXT")
    channels = scene.client(client_properties("SASL_PLAINTEXT", **sasl("SCRAM-SHA-512", "a", "p")))
    answer = scene.ask(channels)
    assert "PLAIN, SCRAM-SHA-256" in answer.message


def test_a_certificate_names_the_principal_by_the_rules() -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/", "ssl.client.auth": "required"}
    scene = Scene("SSL", extra=rules)
    known = client_properties("SSL", **pem_properties(AUTHORITY.identity("alice")))
    assert isinstance(scene.ask(scene.client(known)), DescribeClusterResponse)
    assert scene.principals == ["User:alice"]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("stranger", [None, Authority().identity("mallory")])
def test_a_client_without_a_certificate_of_the_authority_is_refused(
    version: str, stranger: Identity | None
) -> None:
    scene = Scene("SSL", extra={"ssl.client.auth": "required", "ssl.enabled.protocols": version})
    own = {} if stranger is None else pem_properties(stranger)
    answer = scene.ask(scene.client(client_properties("SSL", **own)))
    assert isinstance(answer, ChannelError) and answer.kind == "authentication"
    assert "connection.tls_failed" in [event for _, event, _ in scene.world.lines]
    assert not scene.principals


def test_a_server_of_another_name_or_authority_is_not_believed() -> None:
    scene = Scene("SSL", extra=pem_properties(AUTHORITY.identity("x", ("elsewhere.example",))))
    answer = scene.ask(scene.client(client_properties("SSL")))
    assert "does not trust the peer's certificate" in answer.message
    unchecked = client_properties("SSL", **{"ssl.endpoint.identification.algorithm": ""})
    assert isinstance(scene.ask(scene.client(unchecked)), DescribeClusterResponse)
    other = client_properties("SSL") | {"ssl.truststore.certificates": Authority().pem}
    assert "does not trust the peer's certificate" in scene.ask(scene.client(other)).message


def frame(key: int, version: int, body: bytes = b"") -> bytes:
    head = pack(">hhih", key, version, 1, -1)
    return pack(">i", len(head) + len(body)) + head + body


OLD_HANDSHAKE = frame(17, 0, pack(">h", 5) + b"PLAIN")


@pytest.mark.parametrize(
    ("sent", "event"),
    [
        (frame(3, 1), "connection.unauthenticated"),
        (frame(58, 0, b"\0" * 10), "connection.unauthenticated"),
        (frame(36, 0, pack(">i", 1) + b"x"), "connection.authentication_failed"),
        (frame(17, 1, pack(">h", 4) + b"NONE"), "connection.authentication_failed"),
        (frame(17, 1, pack(">h", 6) + b"GSSAPI"), "connection.authentication_failed"),
        (pack(">i", 2_000_000_000), "connection.malformed"),
        (pack(">i", 600_000), "connection.malformed"),
        (b"\xff" * 64, "connection.malformed"),
        (b"GET / HTTP/1.1\r\n\r\n", "connection.malformed"),
        (
            frame(17, 0, pack(">h", 5) + b"PLAIN") + pack(">i", 3) + b"\0a\0",
            "connection.authentication_failed",
        ),
    ],
)
def test_a_request_before_authentication_ends_the_connection(sent: bytes, event: str) -> None:
    scene = Scene("SASL_PLAINTEXT")
    assert event in scene.raw(sent)
    scene.pass_ms(200)
    assert not scene.server.connections and not scene.principals


def test_tokens_without_headers_authenticate_an_old_client() -> None:
    scene = Scene("SASL_PLAINTEXT")
    sent = OLD_HANDSHAKE + pack(">i", 4) + b"\0a\0p"
    assert scene.raw(sent) == []
    [connection] = scene.server.connections.values()
    assert connection.principal == "User:a"


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 40, b"\xff" * 300_000],
)
def test_a_handshake_that_is_none_ends_in_time_and_bytes(sent: bytes) -> None:
    scene = Scene("SSL")
    scene.raw(sent)
    scene.pass_ms(limits.AUTHENTICATION_MS_MAX + 1)
    assert [event for _, event, _ in scene.world.lines] == ["connection.tls_failed"]
    assert not len(scene.listeners.stages["EXT"].handshakes) and not scene.server.connections


def test_a_silent_peer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKES_MAX", 3)
    scene = Scene("SASL_PLAINTEXT")
    for _ in range(5):
        scene.raw(b"")
    assert len(scene.server.connections) == 3
    scene.pass_ms(limits.AUTHENTICATION_MS_MAX + 1)
    assert not scene.server.connections
    events = [event for _, event, _ in scene.world.lines]
    assert events.count("connection.authentication_refused") == 2
    assert events.count("connection.authentication_late") == 3


def test_a_session_is_renewed_by_its_client_and_ends_for_others() -> None:
    scene = Scene("SASL_PLAINTEXT", extra={"connections.max.reauth.ms": "1000"})
    channels = scene.client(
        client_properties("SASL_PLAINTEXT", **sasl("SCRAM-SHA-256", "bob", "s-secret"))
    )
    for _ in range(4):
        assert isinstance(scene.ask(channels), DescribeClusterResponse)
        scene.pass_ms(900)
    assert len(scene.server.connections) == 1
    assert scene.listeners.stages["EXT"].sasl.succeeded == 4  # type: ignore[union-attr]


def test_a_session_that_is_over_serves_nothing() -> None:
    scene = Scene("SASL_PLAINTEXT", extra={"connections.max.reauth.ms": "1000"})
    plain = sasl("PLAIN", "a", "p")
    channels = scene.client(client_properties("SASL_PLAINTEXT", **plain))
    scene.ask(channels)
    [connection] = channels._connections.values()
    connection._authentication = None  # a client that does not renew
    scene.pass_ms(1_001)
    answer = scene.ask(channels)
    assert isinstance(answer, ChannelError) and answer.kind == "closed"
    assert "connection.session_expired" in [event for _, event, _ in scene.world.lines]


@pytest.mark.parametrize(
    ("mechanism", "token", "says"),
    [("PLAIN", b"\0b\0q", "Cannot change principals"), ("SCRAM-SHA-256", b"", "another mechanism")],
)
def test_a_principal_may_not_change(mechanism: str, token: bytes, says: str) -> None:
    jaas = f'{PLAIN} username="a" password="p" user_a="p" user_b="q";'
    extra = {"connections.max.reauth.ms": "1000", "listener.name.ext.plain.sasl.jaas.config": jaas}
    scene = Scene("SASL_PLAINTEXT", extra=extra)
    channels = scene.client(client_properties("SASL_PLAINTEXT", **sasl("PLAIN", "a", "p")))
    scene.ask(channels)
    scene.pass_ms(500)
    channels.send(AT, SaslHandshakeRequest(mechanism=mechanism), scene.answers.append, version=1)
    channels.send(AT, SaslAuthenticateRequest(auth_bytes=token), scene.answers.append, version=1)
    scene.pass_ms(300)
    assert says in str(scene.world.lines)
    assert not scene.server.connections


# -- files and settings --------------------------------------------------------------------------------------


def file_properties(path: Path, identity: Identity, password: str = "") -> dict[str, str]:
    inline = ("ssl.keystore.certificate.chain", "ssl.keystore.key")
    found = node_properties("SSL") | dict.fromkeys(inline, "")
    path.write_text(identity.pem(password))
    return found | {"ssl.keystore.location": str(path), "ssl.key.password": password}


def start(properties: dict[str, str]) -> SecureWorld:
    """A node's checks at its start."""
    world = SecureWorld()
    config = NodeConfig.from_properties(properties)
    listeners = Listeners(world, config, Features, credentials)
    security = NodeSecurity(config)
    security.check(world, listeners.stages.values())
    return world


def test_a_certificate_is_replaced_while_connections_come(tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    properties = file_properties(path, NODE)
    world = SecureWorld()
    scene = Scene("SSL", world, properties)
    scene.listeners.servers.clear()
    ask = client_properties("SSL")
    assert isinstance(scene.ask(scene.client(ask)), DescribeClusterResponse)
    other = AUTHORITY.identity("x", ("elsewhere.example",))
    path.write_text(other.pem())
    assert "not trust" in scene.ask(scene.client(ask)).message
    path.write_text("nonsense")
    assert "not trust" in scene.ask(scene.client(ask)).message, "the former stays in use"
    assert "tls.reload_failed" in [event for _, event, _ in world.lines]


def test_an_encrypted_key_is_opened_by_its_password(tmp_path: Path) -> None:
    properties = file_properties(tmp_path / "n.pem", NODE, "key-secret")
    start(properties)
    with pytest.raises(ConfigError, match=r"ssl\.key\.password does not open it") as error:
        start(properties | {"ssl.key.password": "wrong-secret"})
    assert "secret" not in str(error.value)


def test_a_pkcs12_store_is_read(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    path = tmp_path / "node.p12"
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"node", NODE.key, NODE.certificate, None, BestAvailableEncryption(b"store-secret")
        )
    )
    properties = file_properties(tmp_path / "n.pem", NODE) | {
        "ssl.keystore.location": str(path),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "store-secret",
    }
    start(properties)
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.password is wrong"):
        start(properties | {"ssl.keystore.password": "x"})


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"ssl.keystore.key": ""}, "certificate chain and key come together"),
        ({"ssl.keystore.location": "/x"}, "exclude each other"),
        ({"ssl.keystore.type": "JKS"}, r"needs ssl\.keystore\.type=PEM"),
        ({"ssl.keystore.certificate.chain": Authority().pem}, "does not belong"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2 and TLSv1.3 only"),
        ({"ssl.client.auth": "required", "ssl.truststore.certificates": ""}, "needs it"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
        ({"ssl.cipher.suites": "NONE_SUCH"}, "none of them is known"),
        ({"ssl.truststore.certificates": "nonsense"}, "holds no certificate"),
    ],
)
def test_a_wrong_combination_of_tls_keys_is_one_sentence(extra: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        start({**node_properties("SSL"), **extra})


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "Kerberos"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "sasl.enabled.mechanisms must have it"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "Kerberos"),
        ({"listener.name.ext.plain.sasl.jaas.config": f"{PLAIN};"}, "PLAIN needs a user"),
        (
            {"listener.name.ext.plain.sasl.jaas.config": f'{PLAIN} user_a="p";'},
            "username and password",
        ),
    ],
)
def test_a_wrong_combination_of_sasl_keys_is_one_sentence(extra: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        start({**node_properties("SASL_PLAINTEXT"), **extra})


def test_a_jks_store_is_refused_with_the_line_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "node.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed" + b"\0" * 40)
    properties = file_properties(tmp_path / "n.pem", NODE) | {
        "ssl.keystore.location": str(path),
        "ssl.keystore.type": "JKS",
    }
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        start(properties)


def test_a_keystore_is_replaced_while_the_listener_serves() -> None:
    """As AlterConfigs does, with the listener's prefix; connections that are open stay."""
    other = Authority()
    identity = other.identity("node-1")
    trust = {
        "security.protocol": "SSL", "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": other.pem,
    }  # fmt: skip
    scene = Scene("SSL")
    former = scene.client(client_properties("SSL"))
    assert isinstance(scene.ask(former), DescribeClusterResponse)
    assert isinstance(scene.ask(scene.client(trust)), ChannelError)
    texts, prefix = node_properties("SSL"), "listener.name.ext.ssl.keystore."
    key = AUTHORITY.identity("x").key_pem()
    chain = identity.certificate_pem
    scene.dynamic.follow({**texts, f"{prefix}certificate.chain": chain, f"{prefix}key": key})
    assert [line[1] for line in scene.world.lines][-1] == "broker.config_refused"
    assert key not in str(scene.world.lines) and chain not in str(scene.world.lines)
    assert isinstance(scene.ask(scene.client(trust)), ChannelError), "the former one stays"
    own = identity.key_pem()
    scene.dynamic.follow({**texts, f"{prefix}certificate.chain": chain, f"{prefix}key": own})
    assert [line[1] for line in scene.world.lines][-1] == "tls.replaced"
    assert isinstance(scene.ask(scene.client(trust)), DescribeClusterResponse)
    assert isinstance(scene.ask(former), DescribeClusterResponse)
    assert isinstance(scene.ask(scene.client(client_properties("SSL"))), ChannelError)
    scene.dynamic.follow(texts)
    assert isinstance(scene.ask(scene.client(client_properties("SSL"))), DescribeClusterResponse)
