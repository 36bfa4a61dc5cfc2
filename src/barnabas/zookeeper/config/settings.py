"""Settings of a broker that ZooKeeper coordinates: its keys, their types, and what the other mode asks
for.

A file with ``zookeeper.connect`` and without ``process.roles`` describes such a broker. Keys of the
quorum that have no meaning there get harmless values, so that one table of keys serves both modes.
Source: ``KafkaConfig`` and ``ZkConfigs`` of Apache Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.config.definition import ConfigDef, ConfigError, ConfigValue, parse_table
from barnabas.config.settings import Settings, _key
from barnabas.zookeeper.config import setting_keys

ZOOKEEPER = ConfigDef(list(parse_table(setting_keys.KEYS)))
UNREACHED_LISTENER = "NO.QUORUM"
"""In place of the controllers' listener, which such a broker has none of. ``CONTROLLER`` is what Kafka's
documentation calls the one of ``control.plane.listener.name``."""
GENERATED = -1
"""A broker id that the ensemble still has to give."""
ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
"""The value of ``authorizer.class.name`` with which entries are znodes."""
MIGRATION = "zookeeper.metadata.migration.enable"
_QUORUM = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_PROTOCOL_VERSIONS = (
    "3.6", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4",
    "3.8", "3.8-IV0", "3.9", "3.9-IV0",
)  # fmt: skip
"""The releases whose brokers read what these write: each request has a version that both know, but
offsets of groups and the verification of transactions (KIP-890) have one form."""


class ZookeeperSettings(Settings):
    """The ensemble and how this broker is known there."""

    connect: str = _key("zookeeper.connect")
    session_timeout_ms: int = _key("zookeeper.session.timeout.ms")
    connection_timeout_ms: int | None = _key("zookeeper.connection.timeout.ms")
    max_in_flight: int = _key("zookeeper.max.in.flight.requests")
    tls: bool = _key("zookeeper.ssl.client.enable")
    set_acl: bool = _key("zookeeper.set.acl")
    id_generation: bool = _key("broker.id.generation.enable")
    reserved_id_max: int = _key("reserved.broker.max.id")
    control_plane_listener: str | None = _key("control.plane.listener.name")
    migrates: bool = _key("zookeeper.metadata.migration.enable")
    """Whether the cluster moves to KRaft while its brokers serve (KIP-866)."""


def is_in_zookeeper_mode(properties: Mapping[str, str]) -> bool:
    """Whether the file is of a broker that ZooKeeper coordinates."""
    return bool(properties.get("zookeeper.connect", "").strip()) and not properties.get(
        "process.roles", ""
    )


def is_migrating(texts: Mapping[str, str]) -> bool:
    """Whether ``zookeeper.metadata.migration.enable`` is set."""
    return texts.get(MIGRATION, "").strip().lower() == "true"


def migration_settings(texts: Mapping[str, str]) -> ZookeeperSettings:
    """The settings of the ensemble from which a KRaft controller migrates. Raises :class:`ConfigError`."""
    if not texts.get("zookeeper.connect", "").strip():
        raise ConfigError(MIGRATION, "true", "zookeeper.connect must name the ensemble")
    known = {name: text for name, text in texts.items() if name in ZOOKEEPER.keys}
    return ZookeeperSettings(ZOOKEEPER.typed(known))


def _check_quorum_is_named(texts: Mapping[str, str]) -> None:
    """A broker on ZooKeeper that migrates registers with the quorum, too."""
    if not any(texts.get(key, "").strip() for key in _QUORUM):
        raise ConfigError(MIGRATION, "true", f"{' or '.join(_QUORUM)} must name the controllers")
    if not texts.get("controller.listener.names", "").strip():
        raise ConfigError(MIGRATION, "true", "controller.listener.names must be set")


def zookeeper_settings(texts: Mapping[str, str]) -> ZookeeperSettings:
    """The settings of a broker's file that names an ensemble. Raises :class:`ConfigError`."""
    known = {name: text for name, text in texts.items() if name in ZOOKEEPER.keys}
    values: Mapping[str, ConfigValue] = ZOOKEEPER.typed(known)
    _refuse(texts, values)
    return ZookeeperSettings(values)


def check_control_plane(
    settings: ZookeeperSettings, advertised: Collection[str], inter_broker: str
) -> None:
    """Whether ``control.plane.listener.name`` is a listener of the controller's alone; `advertised` are the
    names of the listeners. Raises :class:`ConfigError`."""
    key, name = "control.plane.listener.name", settings.control_plane_listener
    if not name:
        return
    if name.upper() not in advertised:
        raise ConfigError(key, name, "it must be one of the advertised listeners")
    if name.upper() == inter_broker:
        raise ConfigError(key, name, "it must be another listener than inter.broker.listener.name")


def _refuse(texts: Mapping[str, str], values: Mapping[str, ConfigValue]) -> None:
    key = "inter.broker.protocol.version"
    if values[key] not in _PROTOCOL_VERSIONS:
        why = (
            "it is 3.6 to 3.9, and changes nothing: requests go in the highest version that both brokers"
            " have. Brokers of an older Apache Kafka need an upgrade to 3.6 or later first"
        )
        raise ConfigError(key, values[key], why)
    key = "zookeeper.set.acl"
    has_certificate = texts.get("zookeeper.ssl.keystore.location", "").strip()
    if values[key] and not (values["zookeeper.ssl.client.enable"] and has_certificate):
        why = (
            "brokers need an identity at the ensemble: zookeeper.ssl.client.enable=true and"
            " zookeeper.ssl.keystore.location"
        )
        raise ConfigError(key, "true", why)
    for key, text in texts.items():
        if key.startswith("authorizer.zookeeper."):
            why = "access control entries are kept where zookeeper.connect says"
            raise ConfigError(key, "(hidden)" if "password" in key else text, why)


def broker_id_of(texts: Mapping[str, str]) -> int:
    """The broker's id by its file; `GENERATED` where the ensemble gives one. Raises :class:`ConfigError`."""
    text = texts.get("broker.id", texts.get("node.id", "-1")).strip()
    try:
        number = int(text)
    except ValueError:
        raise ConfigError("broker.id", text, "it is a number") from None
    settings = zookeeper_settings(texts)
    if number < 0:
        if not settings.id_generation:
            raise ConfigError("broker.id", text, "broker.id.generation.enable is false")
        return GENERATED
    if settings.id_generation and number > settings.reserved_id_max:
        allowed = f"above reserved.broker.max.id ({settings.reserved_id_max}) are generated ids"
        raise ConfigError("broker.id", text, allowed)
    return number


def with_quorum_keys(texts: Mapping[str, str]) -> dict[str, str]:
    """`texts` with what a broker's table requires of the other mode's keys."""
    number = str(max(broker_id_of(texts), 0))
    if is_migrating(texts):
        _check_quorum_is_named(texts)
        return {**texts, "process.roles": "broker", "node.id": number, "broker.id": number}
    protocols = texts.get("listener.security.protocol.map", "").strip()
    if protocols:
        protocols = f"{protocols},{UNREACHED_LISTENER}:PLAINTEXT"
        texts = {**texts, "listener.security.protocol.map": protocols}
    return {
        **texts,
        "process.roles": "broker",
        "node.id": number,
        "broker.id": number,
        "controller.listener.names": UNREACHED_LISTENER,
    }
