"""A node's configuration: its properties as typed values, validated as a whole.

A :class:`NodeConfig` is immutable; dynamic configuration makes a new one (`with_dynamic`). Groups of settings
are attributes (``config.quorum.fetch_timeout_ms``); other keys are in ``config.values["some.key"]``. Source:
``KafkaConfig`` of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from barnabas.config import settings
from barnabas.config.broker import BROKER, broker_key, nearest_key, strip_listener_prefix
from barnabas.config.coordination import QUORUM, ClusterCoordination
from barnabas.config.definition import ConfigError, ConfigValue
from barnabas.config.listeners import (
    ADDRESS_LIMITS,
    ListenerSpec,
    Voter,
    check_ports_differ,
    parse_address_limits,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from barnabas.config.meta_properties import normal_path, unknown_paths
from barnabas.config.tables.assignors import ASSIGNORS, SHARE_ASSIGNORS, short_names
from barnabas.types import Endpoint, NodeId

_ANY_HOST = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NodeConfig:
    """The whole configuration of a node.

    `properties` are the texts of its file, `dynamic` those of ConfigRecords, which override them. `values`
    has every key as a typed value. `unknown` are the keys that no table defines; the node warns of them.
    """

    properties: Mapping[str, str]
    dynamic: Mapping[str, str]
    values: Mapping[str, ConfigValue]
    unknown: tuple[str, ...]
    node_id: NodeId
    is_broker: bool
    is_controller: bool
    listeners: tuple[ListenerSpec, ...]
    """All listeners, in the order of the file."""
    advertised: tuple[ListenerSpec, ...]
    """The addresses by which others reach this node; port 0 means the port that the listener gets."""
    controller_listener_names: tuple[str, ...]
    inter_broker_listener_name: str
    voters: tuple[Voter, ...]
    """Sorted by id; empty if the quorum is dynamic (KIP-853)."""
    bootstrap_controllers: tuple[Endpoint, ...]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    rack: str | None
    quorum: settings.QuorumSettings
    metadata_log: settings.MetadataLogSettings
    controller: settings.ControllerSettings
    broker: settings.BrokerSettings
    replication: settings.ReplicationSettings
    logs: settings.LogManagerSettings
    sockets: settings.SocketSettings
    offsets: settings.OffsetsSettings
    groups: settings.GroupSettings
    transactions: settings.TransactionSettings
    share_coordinator: settings.ShareCoordinatorSettings
    _texts: Mapping[str, str] = field(repr=False)
    coordination: ClusterCoordination = QUORUM
    """The coordinator of the node's cluster."""

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], coordination: ClusterCoordination = QUORUM
    ) -> NodeConfig:
        """Validate and parse a whole properties file. Raises :class:`ConfigError`."""
        coordination.check_authorizer(properties.get("authorizer.class.name", "").strip())
        _check_plug_ins(properties)
        return _build(dict(properties), {}, coordination)

    def with_dynamic(self, dynamic: Mapping[str, str]) -> NodeConfig:
        """This configuration with `dynamic` over its properties. The caller merges the ConfigRecords of all
        brokers and of this one. Keys that may not change while a node runs keep their value. Raises
        :class:`ConfigError`."""
        usable = {name: text for name, text in dynamic.items() if broker_key(name) is not None}
        built = _build(self.properties, usable, self.coordination)
        return replace(built, unknown=self.unknown)

    def below(self, base: str) -> NodeConfig:
        """This configuration with relative paths of directories below `base`."""
        return replace(
            self,
            log_dirs=tuple(normal_path(path, base) for path in self.log_dirs),
            metadata_log_dir=normal_path(self.metadata_log_dir, base),
        )

    @property
    def texts(self) -> Mapping[str, str]:
        """All keys that are set, as text, dynamic over properties: the `broker` argument of `config.topic`
        and `config.group`."""
        return self._texts

    def unknown_keys(self) -> dict[str, str | None]:
        """The unknown keys, each with the known key of the most similar name, or None."""
        return {name: nearest_key(name) for name in self.unknown}

    @property
    def broker_listeners(self) -> tuple[ListenerSpec, ...]:
        """Listeners for clients and other brokers."""
        return tuple(x for x in self.listeners if x.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[ListenerSpec, ...]:
        return tuple(x for x in self.listeners if x.name in self.controller_listener_names)

    def reached_at(
        self, specs: Iterable[ListenerSpec], machine_name: Callable[[], str]
    ) -> dict[str, Endpoint]:
        """The endpoints by which others reach the listeners `specs`, by name. An endpoint is the advertised
        one. If it has no specific host, the first controller listener has the one in
        ``controller.quorum.voters``, and others have the machine's name. Port 0 stays."""
        advertised = {spec.name: spec for spec in self.advertised}
        static = {voter.node_id: voter.endpoint for voter in self.voters}.get(self.node_id)
        found = {}
        for spec in specs:
            at = advertised.get(spec.name, spec).endpoint
            if at.host in _ANY_HOST and static and spec.name == self.controller_listener_names[0]:
                at = static
            found[spec.name] = Endpoint(machine_name(), at.port) if at.host in _ANY_HOST else at
        return found

    def protocol_of(self, listener: str) -> str:
        """The security protocol of a listener, also of one that only other nodes have. Raises
        :class:`ConfigError`."""
        protocols = _protocols(self._texts, self.values, self.controller_listener_names)
        protocol = protocols.get(listener)
        if protocol is None:
            key = "listener.security.protocol.map"
            raise ConfigError(key, str(self.values[key]), f"it must name {listener}")
        return protocol

    @property
    def is_voter(self) -> bool:
        """Whether the static voter set names this node."""
        return self.is_controller and any(voter.node_id == self.node_id for voter in self.voters)

    def text(self, name: str) -> str | None:
        """The text of the key `name`; None if it is not set."""
        return self._texts.get(name)

    def int_value(self, name: str) -> int:
        """The value of a key of type int, short or long."""
        value = self.values[name]
        assert isinstance(value, int), name
        return value

    @property
    def is_monitored(self) -> bool:
        """Whether the node shows or sends metrics."""
        return bool(self.values["metrics.listeners"] or self.values["otel.endpoint"])

    def __repr__(self) -> str:
        roles = "+".join(_role_names(self.is_broker, self.is_controller))
        return f"NodeConfig(node {self.node_id}, {roles}, {', '.join(map(str, self.listeners))})"


def _role_names(is_broker: bool, is_controller: bool) -> list[str]:
    return ["broker"] * is_broker + ["controller"] * is_controller


_NOT_SUPPORTED = {
    "client.quota.callback.class": "there are no plug-ins that decide client quotas",
}
"""Keys that are refused, with the reason, because ignoring them would break a promise."""


OF_THE_AUTHORIZER = ("super.users", "allow.everyone.if.no.acl.found")
"""Keys of Apache Kafka's authorizer, which are in no table of a node's keys."""
OF_PROVIDERS = "config.providers."
"""Prefix of the keys of `config.providers`, which is read before everything else."""


def _check_plug_ins(properties: Mapping[str, str]) -> None:
    for user in properties.get("super.users", "").split(";"):
        if user.strip() and ":" not in user:
            why = "each super user has a type and a name, as User:admin; semicolons separate them"
            raise ConfigError("super.users", user.strip(), why)
    for_all = properties.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    if for_all not in ("true", "false"):
        raise ConfigError("allow.everyone.if.no.acl.found", for_all, "it is true or false")
    for name, why in _NOT_SUPPORTED.items():
        given = properties.get(name, "").strip()
        if given:
            raise ConfigError(name, "(hidden)" if BROKER[name].sensitive else given, why)


def _build(
    properties: Mapping[str, str], dynamic: Mapping[str, str], coordination: ClusterCoordination
) -> NodeConfig:
    texts = coordination.completed({**properties, **_applicable(dynamic)})
    values = BROKER.typed(texts)
    roles = _list(values, "process.roles")
    is_broker, is_controller = "broker" in roles, "controller" in roles
    controller_names = tuple(name.upper() for name in _list(values, "controller.listener.names"))
    protocols = _protocols(texts, values, controller_names)
    listeners = parse_listeners("listeners", _list(values, "listeners"), protocols)
    check_ports_differ("listeners", listeners)
    _check_roles_and_listeners(is_broker, is_controller, listeners, controller_names)
    advertised = _advertised(values, listeners, protocols, controller_names)
    voters = parse_voters(_list(values, "controller.quorum.voters"))
    servers = _list(values, "controller.quorum.bootstrap.servers")
    node_id = coordination.own_id(
        properties,
        NodeId(_int(values, "node.id")),
        voters,
        servers,
        is_controller=is_controller,
    )
    _check_values(node_id, texts, values)
    coordination.check_roles(is_broker=is_broker, is_controller=is_controller)
    log_dirs = tuple(map(normal_path, _list(values, "log.dirs") or _list(values, "log.dir")))
    inter_broker = _inter_broker(texts, values, is_broker, advertised, controller_names)
    coordination.check_listeners([spec.name for spec in advertised], inter_broker)
    return NodeConfig(
        properties=properties,
        dynamic=dynamic,
        values=values,
        unknown=tuple(
            name
            for name in properties
            if broker_key(name) is None
            and name not in OF_THE_AUTHORIZER
            and not name.startswith(OF_PROVIDERS)
            and not coordination.knows(name)
        ),
        node_id=node_id,
        is_broker=is_broker,
        is_controller=is_controller,
        listeners=listeners,
        advertised=advertised,
        controller_listener_names=controller_names,
        inter_broker_listener_name=inter_broker,
        voters=voters,
        bootstrap_controllers=tuple(
            parse_endpoint("controller.quorum.bootstrap.servers", server) for server in servers
        ),
        log_dirs=log_dirs,
        metadata_log_dir=normal_path(cast("str | None", values["metadata.log.dir"]) or log_dirs[0]),
        rack=cast("str | None", values["broker.rack"]),
        quorum=settings.QuorumSettings(values),
        metadata_log=settings.MetadataLogSettings(values),
        controller=settings.ControllerSettings(values),
        broker=settings.BrokerSettings(values),
        replication=settings.ReplicationSettings(values),
        logs=settings.LogManagerSettings(values),
        sockets=settings.SocketSettings(values),
        offsets=settings.OffsetsSettings(values),
        groups=settings.GroupSettings(values),
        transactions=settings.TransactionSettings(values),
        share_coordinator=settings.ShareCoordinatorSettings(values),
        _texts=texts,
        coordination=coordination,
    )


def _applicable(dynamic: Mapping[str, str]) -> dict[str, str]:
    """The keys in `dynamic` that may change while the node runs. A listener's own settings keep their prefix;
    the listener reads them."""
    usable = {}
    for name, text in dynamic.items():
        key = broker_key(name)
        if key is not None and (key.mode or strip_listener_prefix(name) != name):
            usable[name] = text
    return usable


def _protocols(
    texts: Mapping[str, str], values: Mapping[str, ConfigValue], controller_names: tuple[str, ...]
) -> dict[str, str]:
    protocols = parse_protocol_map(cast(str, values["listener.security.protocol.map"]))
    if "listener.security.protocol.map" not in texts:
        # As in Kafka: without that key a controller listener is PLAINTEXT.
        for name in controller_names:
            protocols.setdefault(name, "PLAINTEXT")
    return protocols


def _check_roles_and_listeners(
    is_broker: bool,
    is_controller: bool,
    listeners: tuple[ListenerSpec, ...],
    controller_names: tuple[str, ...],
) -> None:
    names = [spec.name for spec in listeners]
    shown = ",".join(map(str, listeners))
    own = [name for name in controller_names if name in names]
    if is_controller and not own:
        raise ConfigError(
            "listeners", shown, f"a controller must have the listener {controller_names[0]}"
        )
    if not is_controller and own:
        raise ConfigError("listeners", shown, f"only a controller may have the listener {own[0]}")
    if is_broker and len(own) == len(names):
        raise ConfigError("listeners", shown, "a broker needs a listener besides the controller's")
    if not is_broker and len(own) != len(names):
        raise ConfigError(
            "listeners", shown, "a node that is only a controller has only controller listeners"
        )


def _advertised(
    values: Mapping[str, ConfigValue],
    listeners: tuple[ListenerSpec, ...],
    protocols: Mapping[str, str],
    controller_names: tuple[str, ...],
) -> tuple[ListenerSpec, ...]:
    key = "advertised.listeners"
    items = _list(values, key)
    given = parse_listeners(key, items, protocols)
    by_name = {spec.name: spec for spec in given}
    for spec in given:
        if spec.host in _ANY_HOST:
            raise ConfigError(key, str(spec), "others cannot connect to an unspecified address")
        if all(spec.name != listener.name for listener in listeners):
            raise ConfigError(key, str(spec), f"listeners has no {spec.name}")
    for listener in listeners:
        if items and listener.name not in by_name and listener.name not in controller_names:
            continue
        by_name.setdefault(listener.name, listener)
    return tuple(by_name[spec.name] for spec in listeners if spec.name in by_name)


def _inter_broker(
    texts: Mapping[str, str],
    values: Mapping[str, ConfigValue],
    is_broker: bool,
    advertised: tuple[ListenerSpec, ...],
    controller_names: tuple[str, ...],
) -> str:
    key = "inter.broker.listener.name"
    given = cast("str | None", values[key])
    if given and "security.inter.broker.protocol" in texts:
        raise ConfigError(key, given, "it and security.inter.broker.protocol exclude each other")
    name = (given or cast(str, values["security.inter.broker.protocol"])).upper()
    if not is_broker:
        return name
    if name in controller_names:
        raise ConfigError(key, name, "it must not be a controller's listener")
    if all(spec.name != name for spec in advertised):
        raise ConfigError(key, name, "it must be one of the advertised listeners")
    return name


def _check_values(
    node_id: NodeId, texts: Mapping[str, str], values: Mapping[str, ConfigValue]
) -> None:
    if "broker.id" in texts and 0 <= node_id != _int(values, "broker.id"):
        raise ConfigError("broker.id", texts["broker.id"], f"it must equal node.id ({node_id})")
    _check_at_most(values, "replica.fetch.wait.max.ms", "replica.lag.time.max.ms")
    _check_at_most(values, "replica.fetch.wait.max.ms", "replica.socket.timeout.ms")
    _check_at_most(values, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    if "broker" in _list(values, "process.roles") and "controller" in _list(
        values, "process.roles"
    ):
        # The broker uses the first key, the controller the second: only a node with both roles uses both.
        _check_at_most(values, "broker.heartbeat.interval.ms", "broker.session.timeout.ms")
    check_log_times(values)
    _check_address_limits(values)
    _check_lists(values)
    codec = "offsets.topic.compression.codec"
    if not 0 <= _int(values, codec) <= 4:
        raise ConfigError(codec, values[codec], "it must be the number of a codec, 0 to 4")
    if values["remote.log.storage.system.enable"]:
        raise ConfigError(
            "remote.log.storage.system.enable", "true", "this version has no remote tier"
        )


def check_log_times(values: Mapping[str, ConfigValue]) -> None:
    """Bounds of log times that Kafka checks beside its table of keys. Raises :class:`ConfigError`."""
    for key, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        value = values[key]
        if isinstance(value, int) and value < least:
            raise ConfigError(key, value, f"it must be at least {least}")
    keys = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    key = next(name for name in keys if values[name] is not None)
    if values[key] == 0:
        raise ConfigError(key, 0, "it must be at least 1, or -1 for ever")


def _check_lists(values: Mapping[str, ConfigValue]) -> None:
    key = "group.coordinator.rebalance.protocols"
    if "classic" not in _list(values, key):
        raise ConfigError(key, ",".join(_list(values, key)), "classic must be among them")
    for key, known_ones in ASSIGNORS.items():
        named = short_names(key, _list(values, key))
        unknown = [name for name in named if name not in known_ones]
        if unknown:
            raise ConfigError(key, ",".join(unknown), f"it must be of {', '.join(known_ones)}")
        if len(set(named)) < len(named):
            once = "exactly one assignor" if key == SHARE_ASSIGNORS else "each assignor once"
            raise ConfigError(key, ",".join(_list(values, key)), f"it must contain {once}")
    key, every = "cordoned.log.dirs", "*"
    cordoned = _list(values, key)
    known = [every] if every in cordoned else _list(values, "log.dirs") or _list(values, "log.dir")
    if unknown_paths(cordoned, known) and "broker" in _list(values, "process.roles"):
        wanted = "it must be alone" if every in cordoned else "log.dirs must have all of them"
        raise ConfigError(key, ",".join(cordoned), wanted)


def _check_address_limits(values: Mapping[str, ConfigValue]) -> None:
    found = parse_address_limits(cast(str, values[ADDRESS_LIMITS]))
    if not found and not values["max.connections.per.ip"]:
        raise ConfigError(
            "max.connections.per.ip",
            0,
            "max.connections.per.ip.overrides must name addresses that may connect",
        )


def _check_at_most(values: Mapping[str, ConfigValue], low: str, high: str) -> None:
    if _int(values, low) > _int(values, high):
        raise ConfigError(low, values[low], f"it must not exceed {high} ({values[high]})")


def _list(values: Mapping[str, ConfigValue], name: str) -> list[str]:
    return cast("list[str] | None", values[name]) or []


def _int(values: Mapping[str, ConfigValue], name: str) -> int:
    return cast(int, values[name])
