"""An image as a tree of names, to be browsed: ``tree`` lists a path, ``cat`` shows its value.

The layout follows Kafka's metadata shell: ``/provenance``, ``/features``, ``/cluster/brokers/1``,
``/topics/byName/t/0``, ``/topics/byId/<id>``, ``/configs/TOPIC/t``, ``/producerIds``,
``/clientQuotas``, ``/acls``, ``/scram``, ``/delegationTokens``. Leaves are plain values (dictionaries,
lists, text, numbers) that JSON can carry; nothing secret is shown.

Source: Kafka's ``MetadataShell``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.config.broker import broker_key
from barnabas.config.definition import HIDDEN, without_user
from barnabas.metadata.image.image import BROKER, MetadataImage
from barnabas.metadata.image.partition_states import state_of
from barnabas.metadata.image.registrations import BrokerRegistration, ControllerRegistration
from barnabas.metadata.image.topic import PartitionState, Topic
from barnabas.types import uuid_text

CONFIG_TYPES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
DEFAULT_RESOURCE = "(default)"

Branch = Callable[[], Mapping[str, Any]]
"""A directory: its children by name, each a Branch or a plain value."""


class NoSuchPathError(KeyError):
    """The path does not exist."""

    def __str__(self) -> str:
        return f"nothing is at {self.args[0]!r}"


def root(image: MetadataImage) -> Branch:
    """The tree of an image; branches are built when they are read."""
    return lambda: {
        "provenance": {
            "offset": image.offset,
            "epoch": image.epoch,
            "lastContainedLogTimeMs": image.append_ms,
        },
        "features": dict(sorted(image.features.items())),
        "cluster": lambda: {
            "brokers": lambda: {
                str(b): broker_value(image.brokers[b]) for b in sorted(image.brokers)
            },
            "controllers": lambda: {
                str(c): controller_value(image.controllers[c]) for c in sorted(image.controllers)
            },
        },
        "topics": lambda: {
            "byName": lambda: {
                name: _topic(image.topics_by_name[name]) for name in sorted(image.topics_by_name)
            },
            "byId": lambda: {
                uuid_text(topic_id): topic.name
                for topic_id, topic in sorted(image.topics_by_id.items())
            },
        },
        "configs": lambda: _configs(image),
        "producerIds": {"nextProducerId": image.next_producer_id},
        "clientQuotas": lambda: {
            ",".join(f"{kind}={name or DEFAULT_RESOURCE}" for kind, name in entity): dict(limits)
            for entity, limits in image.client_quotas.items()
        },
        "acls": lambda: {uuid_text(acl_id): repr(acl) for acl_id, acl in image.acls.items()},
        "scram": lambda: {
            f"{mechanism}:{name}": SECRET for mechanism, name in image.scram_credentials
        },
        "delegationTokens": lambda: dict.fromkeys(image.delegation_tokens, SECRET),
    }


def at(image: MetadataImage, path: str) -> Any:
    """The Branch or the value at `path`. Raises NoSuchPathError."""
    node: Any = root(image)
    for name in [part for part in path.split("/") if part]:
        children = node() if callable(node) else node
        if not isinstance(children, Mapping) or name not in children:
            raise NoSuchPathError(path)
        node = children[name]
    return node


def children(image: MetadataImage, path: str = "/") -> list[str]:
    """Names below `path`; a directory's ends with a slash. Raises NoSuchPathError."""
    node = at(image, path)
    below = node() if callable(node) else node
    if not isinstance(below, Mapping):
        return []
    return [f"{name}/" if callable(value) else name for name, value in below.items()]


def cat(image: MetadataImage, path: str) -> Any:
    """Everything at and below `path` as plain values. Raises NoSuchPathError."""
    return _plain(at(image, path))


def _plain(node: Any) -> Any:
    value = node() if callable(node) else node
    if isinstance(value, Mapping):
        return {name: _plain(child) for name, child in value.items()}
    return value


def _topic(topic: Topic) -> Branch:
    return lambda: {
        "name": topic.name,
        "id": uuid_text(topic.id),
        **{str(state.partition): partition_value(state) for state in topic.partitions()},
    }


def partition_value(state: PartitionState) -> dict[str, Any]:
    """A partition as plain values."""
    return {
        "state": state_of(state.leader, state.leader_epoch),
        "leader": state.leader,
        "leaderEpoch": state.leader_epoch,
        "partitionEpoch": state.partition_epoch,
        "leaderRecoveryState": "RECOVERING" if state.recovery else "RECOVERED",
        "replicas": list(state.replicas),
        "isr": list(state.isr),
        "elr": list(state.elr),
        "lastKnownElr": list(state.last_known_elr),
        "addingReplicas": list(state.adding),
        "removingReplicas": list(state.removing),
        "directories": [uuid_text(directory) for directory in state.directories],
    }


def _endpoints(node: BrokerRegistration | ControllerRegistration) -> dict[str, str]:
    return {name: str(to.endpoint) for name, to in node.listeners.items()}


def _features(node: BrokerRegistration | ControllerRegistration) -> dict[str, str]:
    return {name: f"{of.lowest}-{of.highest}" for name, of in sorted(node.features.items())}


def broker_value(broker: BrokerRegistration) -> dict[str, Any]:
    """A broker's registration as plain values."""
    return {
        "id": broker.id,
        "epoch": broker.epoch,
        "incarnationId": uuid_text(broker.incarnation),
        "listeners": _endpoints(broker),
        "supportedFeatures": _features(broker),
        "rack": broker.rack,
        "fenced": broker.fenced,
        "inControlledShutdown": broker.in_controlled_shutdown,
        "directories": [uuid_text(directory) for directory in broker.directories],
        "cordonedDirectories": [uuid_text(directory) for directory in broker.cordoned],
    }


def controller_value(controller: ControllerRegistration) -> dict[str, Any]:
    """A controller's registration as plain values."""
    return {
        "id": controller.id,
        "incarnationId": uuid_text(controller.incarnation),
        "listeners": _endpoints(controller),
        "supportedFeatures": _features(controller),
    }


SECRET = HIDDEN
"""Shown in place of a secret."""
_SECRET = ("password", "secret", "jaas", "keystore.key")


def is_secret(kind: int, key: str) -> bool:
    """Whether the value of this key of a resource of `kind` is never shown. A broker's key that no table has
    may be a secret, and DescribeConfigs hides it too."""
    if any(word in key for word in _SECRET):
        return True
    found = broker_key(key)
    return kind == BROKER and (found is None or found.sensitive)


def shown_value(kind: int, key: str, value: str) -> str:
    """The value of a key without what is never shown."""
    return SECRET if is_secret(kind, key) else without_user(value)


def _configs(image: MetadataImage) -> dict[str, Any]:
    found: dict[str, dict[str, dict[str, str]]] = {}
    for (kind, name), entries in sorted(image.configs.items()):
        shown = {key: shown_value(kind, key, value) for key, value in sorted(entries.items())}
        by_name = found.setdefault(CONFIG_TYPES.get(kind, str(kind)), {})
        by_name[name or DEFAULT_RESOURCE] = shown
    return found
