"""An operator's own rules about new topics and changed configurations, as Python classes.

A controller's ``create.topic.policy.class.name`` and ``alter.config.policy.class.name`` each name one class,
as ``module:Class`` or ``package.module.Class``. The module must be importable where the node runs
(``PYTHONPATH``). At the start, the node creates an instance without arguments and calls its
``configure(properties)``, where it has one. The controller calls ``validate(request)`` for every topic or
resource that passed all other checks. At the end, the node calls ``close()``, where it has one. A policy
refuses by raising :class:`PolicyViolation`: the client receives POLICY_VIOLATION with its message. Any
other exception refuses too: the client receives UNKNOWN_SERVER_ERROR.

``validate`` runs on the controller's thread, so it must not block. The controller may call it again for a
request that it validated before. A new topic's configuration, if any, goes to the policy on configurations
too. Source: KIP-108, KIP-133; Kafka's CreateTopicPolicy and AlterConfigPolicy.
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
    """Raised by a policy that refuses a request; the message says why."""


class ResourceType(IntEnum):
    """The kind of resource that has a configuration; numbers as in the protocol."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class NewTopic(NamedTuple):
    """A topic that a client asks to create."""

    name: str
    partitions: int | None
    """The number of partitions, with the cluster's default applied; None where `assignments` gives it."""
    replication_factor: int | None
    """The number of replicas, under the same rule as `partitions`."""
    assignments: Mapping[int, tuple[int, ...]] | None
    """Broker ids by partition, where the client chose the replicas; else None."""
    configs: Mapping[str, str]


class ChangedConfigs(NamedTuple):
    """The configuration keys of a resource that a client sets, or deletes where the value is None."""

    type: ResourceType
    name: str
    """The name of the resource; for BROKER, an empty name is the default of all brokers."""
    configs: Mapping[str, str | None]


class CreateTopicPolicy(Protocol):
    def validate(self, request: NewTopic, /) -> None: ...


class AlterConfigPolicy(Protocol):
    def validate(self, request: ChangedConfigs, /) -> None: ...


class Policies(NamedTuple):
    """The policies that a controller's configuration names; None where it names none."""

    create_topic: CreateTopicPolicy | None = None
    alter_config: AlterConfigPolicy | None = None

    def close(self) -> None:
        """Call each policy's ``close()``, where it has one."""
        for policy in self:
            close = getattr(policy, "close", None)
            if close is not None:
                close()


NO_POLICIES = Policies()


def load_policies(properties: Mapping[str, str]) -> Policies:
    """Instances of the policies that `properties` name. Raises :class:`ConfigError`."""
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
