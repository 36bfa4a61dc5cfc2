"""Dynamic configuration replaces TLS stores of listeners and of a node's own connections, with variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.local.certificate_authority import Authority
from barnabas.client.network.channels import ChannelError, Channels
from barnabas.config.node import NodeConfig
from barnabas.config.providers import DIRECTORY
from barnabas.node.dynamic_security import DynamicSecurity
from barnabas.security.listener_security import between_brokers
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse
from tests.unit.security.test_connections import (
    AUTHORITY,
    Scene,
    client_properties,
    node_properties,
)

OTHER = Authority("Another authority")
REQUIRED = {"listener.name.ext.ssl.client.auth": "required"}
PREFIX = "listener.name.ext.ssl."


class Broker:
    """A broker beside the listener of a `Scene`, which asks for certificates: its own connections."""

    def __init__(self, **extra: str) -> None:
        self.scene = Scene("SSL", extra=REQUIRED)
        self.texts = {**node_properties("SSL"), **REQUIRED, **extra}
        config = NodeConfig.from_properties(self.texts)
        world = self.scene.world
        self.channels = Channels(world, "node-1", security=between_brokers(config))
        self.dynamic = DynamicSecurity(world, config, self.scene.listeners, {"EXT": self.channels})

    def is_served(self) -> bool:
        """By a new connection."""
        self.channels = self._again()
        return isinstance(self.scene.ask(self.channels), DescribeClusterResponse)

    def _again(self) -> Channels:
        return Channels(self.scene.world, "node-1", security=self.channels.security)

    def events(self) -> list[str]:
        return [event for _, event, _ in self.scene.world.lines]


def follow(broker: Broker, **changes: str) -> str:
    """Alter keys of the listener; the last event."""
    broker.dynamic.follow(
        {**broker.texts, **{PREFIX + k.replace("_", "."): v for k, v in changes.items()}}
    )
    return broker.events()[-1]


def test_a_brokers_own_connections_follow_its_listeners_stores() -> None:
    broker, identity = Broker(), OTHER.identity("node-1")
    channels = broker.channels
    assert broker.is_served()
    chain, key = identity.certificate_pem, identity.key_pem()
    both = AUTHORITY.pem + OTHER.pem
    broker.channels = channels
    assert follow(broker, truststore_certificates=both) == "tls.replaced"
    listeners = [
        fields["listener"]
        for _, event, fields in broker.scene.world.lines
        if event == "tls.replaced"
    ]
    assert listeners == ["EXT", "connections to EXT"]
    assert broker.is_served()
    broker.channels = channels
    follow(broker, truststore_certificates=both, keystore_certificate_chain=chain, keystore_key=key)
    assert channels.security.tls is not None
    assert channels.security.tls.keystore is not None
    assert channels.security.tls.keystore.certificates == chain
    assert broker.is_served(), "both sides show the new certificate, and trust it"
    former = broker.scene.client(client_properties("SSL"))
    assert isinstance(broker.scene.ask(former), ChannelError)


def test_a_store_that_cannot_be_used_changes_no_connection() -> None:
    broker = Broker()
    before = broker.channels.security
    assert follow(broker, truststore_certificates="none at all") == "broker.config_refused"
    assert broker.channels.security == before and broker.is_served()


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text("open sesame")
    return tmp_path


def test_a_variable_is_answered_by_the_providers_of_the_nodes_file(secrets: Path) -> None:
    providers = {"config.providers": "dir", "config.providers.dir.class": DIRECTORY}
    broker, identity = Broker(**providers), AUTHORITY.identity("node-1")
    chain, key = identity.certificate_pem, identity.key_pem("open sesame")
    former = broker.channels.security

    def alter(password: str) -> str:
        return follow(
            broker, keystore_certificate_chain=chain, keystore_key=key, key_password=password
        )

    for wrong in (f"${{dir:{secrets}:gone}}", f"${{other:{secrets}:password}}"):
        assert alter(wrong) == "broker.config_refused"
        assert broker.channels.security == former
    assert alter(f"${{dir:{secrets}:password}}") == "tls.replaced"
    assert broker.is_served()
    assert "open sesame" not in str(broker.scene.world.lines)


def test_providers_of_dynamic_configuration_answer_nothing(secrets: Path) -> None:
    broker = Broker()
    named = {"config.providers": "dir", "config.providers.dir.class": DIRECTORY}
    (secrets / "pem").write_text("a secret that is no certificate")
    texts = {**broker.texts, **named, PREFIX + "truststore.certificates": f"${{dir:{secrets}:pem}}"}
    broker.dynamic.follow(texts)
    assert broker.events()[-1] == "broker.config_refused"
    assert "a secret" not in str(broker.scene.world.lines) and broker.is_served()
