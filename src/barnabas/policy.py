"""An operator's own rules about new topics and changed configurations, as Python classes.

``create.topic.policy.class.name`` and ``alter.config.policy.class.name`` of a controller name one each,
as ``module:Class`` or ``package.module.Class``; the module must be importable where the node runs
(``PYTHONPATH``). The class is made without arguments at the start, its ``configure(properties)`` is called
once where it has one, then ``validate(request)`` for every topic or resource that passed all other checks,
and ``close()`` at the end where it has one. To refuse is to raise :class:`PolicyViolation`; its sentence
goes to the client with POLICY_VIOLATION. Whatever else is raised is UNKNOWN_SERVER_ERROR, and refuses too.

``validate`` runs within the controller's turn: it must not wait for anything, and may be asked again about
what it has judged before. A new topic's configuration is shown to the policy on configurations too, where
it has any. Source: KIP-108, KIP-133; Kafka's CreateTopicPolicy and AlterConfigPolicy.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from barnabas.config.definition import ConfigError

CREATE_TOPIC = "create.topic.policy.class.name"
ALTER_CONFIG = "alter.config.policy.class.name"


class PolicyViolation(Exception):
    """A policy refuses; the message says why."""


class ResourceType(IntEnum):
    """What has a configuration, with the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class NewTopic(NamedTuple):
    """A topic that is to be created."""

    name: str
    partitions: int | None
    """With the cluster's default applied; None where `assignments` says it."""
    replication_factor: int | None
    assignments: Mapping[int, tuple[int, ...]] | None
    """Brokers by partition, where the client chose them."""
    configs: Mapping[str, str]


class ChangedConfigs(NamedTuple):
    """A resource's keys that a client sets or, where the value is None, takes away."""

    type: ResourceType
    name: str
    """Empty is the default of all brokers."""
    configs: Mapping[str, str | None]


class CreateTopicPolicy(Protocol):
    def validate(self, request: NewTopic, /) -> None: ...


class AlterConfigPolicy(Protocol):
    def validate(self, request: ChangedConfigs, /) -> None: ...


class Policies(NamedTuple):
    """What a controller's file names."""

    create_topic: CreateTopicPolicy | None = None
    alter_config: AlterConfigPolicy | None = None

    def close(self) -> None:
        """The node ends."""
        for policy in self:
            close = getattr(policy, "close", None)
            if close is not None:
                close()


NO_POLICIES = Policies()


def load_policies(properties: Mapping[str, str]) -> Policies:
    """The policies that `properties` name. Raises :class:`ConfigError`."""
    return Policies(
        cast("CreateTopicPolicy | None", _load(CREATE_TOPIC, properties)),
        cast("AlterConfigPolicy | None", _load(ALTER_CONFIG, properties)),
    )


def _load(key: str, properties: Mapping[str, str]) -> object | None:
    named = properties.get(key, "").strip()
    if not named:
        return None
    separator = ":" if ":" in named else "."
    module, _, name = named.rpartition(separator)
    if not module or not name:
        raise ConfigError(key, named, "it must name a Python class as module:Class")
    try:
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        if not isinstance(found, type):
            raise ConfigError(key, named, "it must name a Python class, which this is not")
        policy: object = found()
        configure = getattr(policy, "configure", None)
        if configure is not None:
            configure(dict(properties))
    except ConfigError:
        raise
    except Exception as error:
        reported = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ConfigError(key, named, f"it cannot be loaded ({reported})") from error
    if not callable(getattr(policy, "validate", None)):
        raise ConfigError(key, named, "its class must have a method validate(request)")
    return policy
