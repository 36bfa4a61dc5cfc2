"""`/config/{topics,brokers,clients,users,ips}/NAME` and `/config/changes`: dynamic configuration.

One znode holds everything of one entity: a topic's or broker's configuration, a client's quotas, a user's
quotas and SCRAM credentials. Names of users, clients and IP addresses are sanitized. The entity
`<default>` holds for all that have none of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

from barnabas.zookeeper.layout.java_order import java_map
from barnabas.zookeeper.layout.json_bytes import JsonReader, MalformedZnode, to_json

CONFIG = "/config"
CHANGES = "/config/changes"
CHANGE_PREFIX = f"{CHANGES}/config_change_"
DEFAULT = "<default>"
ENTITY_TYPES = ("topics", "clients", "users", "brokers", "ips")
USERS = "/config/users"
BROKER, TOPIC = 4, 2
"""ConfigRecord's resource types that have a znode."""
_ENTITY = re.compile(r"(topics|clients|users|brokers|ips)/[^/]+|users/[^/]+/clients/[^/]+")
_FOLDERS = {TOPIC: "topics", BROKER: "brokers"}


def sanitize(name: str) -> str:
    """A name as part of a path: percent-encoded, as by Kafka's ``Sanitizer.sanitize``."""
    return quote(name, safe="")


def desanitize(name: str) -> str:
    return unquote_plus(name)


def entity_of(kind: int, name: str) -> str | None:
    """The entity of a configuration resource; None where Kafka 3.9 keeps no such resource in ZooKeeper."""
    folder = _FOLDERS.get(kind)
    return None if folder is None else f"{folder}/{name or DEFAULT}"


def resource_of(entity: str) -> tuple[int, str] | None:
    """The configuration resource (type, name) of an entity; None for clients, users and IP addresses."""
    folder, _, name = entity.partition("/")
    for kind, known in _FOLDERS.items():
        if known == folder and name and "/" not in name:
            return kind, "" if name == DEFAULT else name
    return None


@dataclass(frozen=True, slots=True)
class ConfigZnode:
    """`entity`: `topics/T`, `brokers/1`, `users/alice/clients/app`, sanitized as in the path."""

    entity: str
    config: Mapping[str, str]

    @property
    def path(self) -> str:
        return f"{CONFIG}/{self.entity}"

    def encode(self) -> bytes:
        return to_json({"version": 1, "config": java_map(self.config)})

    @classmethod
    def decode(cls, path: str, data: bytes) -> ConfigZnode:
        """Raises `MalformedZnode`. A znode without data has no configuration."""
        entity = path.removeprefix(f"{CONFIG}/")
        if not data:
            return cls(entity, {})
        config = JsonReader.parse(path, data).object("config")
        names = list(config.keys())
        return cls(entity, {name: config.text(name) for name in names})


@dataclass(frozen=True, slots=True)
class ConfigChangeZnode:
    """A sequential child of `/config/changes`: the configuration of `entity` has changed."""

    entity: str
    name: str = ""
    """Name of the znode with its sequence number; empty before it is created."""

    @property
    def path(self) -> str:
        return f"{CHANGES}/{self.name}" if self.name else CHANGE_PREFIX

    def encode(self) -> bytes:
        return to_json({"version": 2, "entity_path": self.entity})

    @classmethod
    def decode(cls, path: str, data: bytes) -> ConfigChangeZnode:
        """Raises `MalformedZnode`. Version 1 (before 0.11) has type and name in two fields."""
        fields = JsonReader.parse(path, data)
        name = path.removeprefix(f"{CHANGES}/")
        if fields.check_version(1, 2) == 1:
            entity = f"{fields.text('entity_type')}/{fields.text('entity_name')}"
        else:
            entity = fields.text("entity_path")
        if _ENTITY.fullmatch(entity) is None:
            raise MalformedZnode(path, f"{entity!r} is no entity that has a configuration")
        return cls(entity, name)
