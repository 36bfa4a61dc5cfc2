"""DescribeConfigs and ListConfigResources over an image: values, sources, synonyms, types.

Pure: a broker answers from its committed image, a controller from its own. Nothing sensitive is
shown, and a key that no table knows may be a secret. Values are those that hold, each in its own
key's unit; synonyms are texts as they are set. Source: KIP-133, KIP-226, KIP-569 (types and
documentation), KIP-714, KIP-1142; Kafka's ConfigHelper and KafkaConfigSchema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.config.broker import BROKER as BROKER_KEYS
from barnabas.config.broker import broker_id, broker_key, broker_synonyms, why_fixed
from barnabas.config.client_metrics import SUBSCRIPTION
from barnabas.config.definition import (
    ConfigError,
    ConfigKey,
    ConfigType,
    UpdateMode,
    unknown_key,
    without_user,
)
from barnabas.config.group import GROUP as GROUP_KEYS
from barnabas.config.group import broker_synonym, broker_text
from barnabas.config.topic import BROKER_SYNONYMS, topic_default
from barnabas.config.topic import TOPIC as TOPIC_KEYS
from barnabas.config.topic_names import check_topic_name
from barnabas.metadata.image.image import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    CLUSTER_DEFAULT,
    GROUP,
    TOPIC,
    MetadataImage,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from barnabas.wire.messages.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

DYNAMIC_TOPIC = 1
DYNAMIC_BROKER = 2
DYNAMIC_DEFAULT = 3
STATIC = 4
DEFAULT = 5
DYNAMIC_CLIENT_METRICS = 7
DYNAMIC_GROUP = 8
"""Config sources, as in DescribeConfigs."""


class ConfigSource(NamedTuple):
    """One place a value may come from: its source number, the key's name there, its text."""

    source: int
    name: str
    value: str | None


class Configuration:
    """The input of DescribeConfigs: the image, this node's id and its properties as text."""

    def __init__(self, image: MetadataImage, node_id: int, properties: Mapping[str, str]) -> None:
        self.image = image
        self.node_id = node_id
        # The older name of node.id counts as given with the new one.
        static = {"broker.id": str(node_id), **properties}
        self.layers: list[tuple[int, Mapping[str, str]]] = [
            (DYNAMIC_BROKER, image.config(BROKER, str(node_id))),
            (DYNAMIC_DEFAULT, image.config(BROKER, CLUSTER_DEFAULT)),
            (STATIC, static),
        ]
        """This node's configured values by source, strongest first, without the defaults."""

    def texts(self) -> dict[str, str]:
        """The values that hold at this node, by key."""
        merged: dict[str, str] = {}
        for _, values in reversed(self.layers):
            merged.update(values)
        return merged

    def synonyms(self, name: str, wanted: int | None = None) -> list[ConfigSource]:
        """The places where a broker's key `name` or a synonym is set, strongest first; the defaults are last.
        As in Kafka the list begins where `name` itself is set (stronger entries belong to another
        key), and is empty if it is set nowhere. `wanted` keeps one layer only."""
        names = broker_synonyms(name)
        found = [
            ConfigSource(source, key_name, values[key_name])
            for source, values in self.layers
            for key_name in names
            if key_name in values
        ]
        found += [
            ConfigSource(DEFAULT, key_name, key.default)
            for key_name in names
            if (key := BROKER_KEYS.keys.get(key_name)) is not None and key.default is not None
        ]
        own = next((at for at, source in enumerate(found) if source.name == name), len(found))
        return [s for s in found[own:] if wanted is None or s.source == wanted]


class DescribedConfig(NamedTuple):
    """One key as it is described: what holds, where it is set (strongest first), whether it is fixed."""

    key: ConfigKey
    value: str | None
    synonyms: list[ConfigSource]
    read_only: bool = False

    @property
    def source(self) -> int:
        return self.synonyms[0].source if self.synonyms else DEFAULT


def describe_configs(at: Configuration, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """One result per resource asked."""
    return DescribeConfigsResponse(
        results=[_describe(at, resource, request) for resource in request.resources]
    )


def _describe(
    at: Configuration, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        entries = _entries(at, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    # No keys and an empty list of keys both mean all.
    wanted = resource.configuration_keys
    result.configs = [
        _described(entry, request) for entry in entries if not wanted or entry.key.name in wanted
    ]
    return result


def _entries(at: Configuration, kind: int, name: str) -> list[DescribedConfig]:
    if kind == TOPIC:
        problem = check_topic_name(name)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name not in at.image.topics_by_name:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{name}'."
            )
        return _topic_entries(at, at.image.config(TOPIC, name))
    if kind == BROKER:
        return _broker_entries(at, name) if name else _cluster_entries(at)
    if kind == GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return _group_entries(at, at.image.config(GROUP, name))
    if kind == CLIENT_METRICS:
        if not name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        return _subscription_entries(at.image.config(CLIENT_METRICS, name))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def _topic_entries(at: Configuration, overrides: Mapping[str, str]) -> list[DescribedConfig]:
    texts = at.texts()
    entries = []
    for key in _topic_keys(overrides):
        synonyms = BROKER_SYNONYMS.get(key.name, ())
        sources = at.synonyms(synonyms[0].name) if synonyms else []
        value = key.text(topic_default(key.name, texts)) if key.name in TOPIC_KEYS else None
        if key.name in overrides:
            value = canonical(key, overrides[key.name])
            sources.insert(0, ConfigSource(DYNAMIC_TOPIC, key.name, value))
        entries.append(DescribedConfig(key, value, sources))
    return entries


def _topic_keys(overrides: Mapping[str, str]) -> list[ConfigKey]:
    """The topic's keys by name; unclean.recovery.strategy, which Kafka's table lacks, only where it is
    set."""
    keys = [key for _, key in sorted(TOPIC_KEYS.keys.items()) if not key.internal]
    return keys + [
        broker_key(name) or unknown_key(name)
        for name in sorted(overrides)
        if name not in TOPIC_KEYS
    ]


_NO_NAMES = frozenset[str]()
_SYNONYM_NAMES = {
    name: frozenset(synonym.name for synonym in synonyms)
    for name, synonyms in BROKER_SYNONYMS.items()
}


def created_entries(at: Configuration, overrides: Mapping[str, str]) -> list[DescribedConfig]:
    """Every key of a new topic, by name, as CreateTopics tells it: each with the one source that it
    comes from, whatever the unit, unlike DescribeConfigs."""
    entries = []
    for key in _topic_keys(overrides):
        synonyms = _SYNONYM_NAMES.get(key.name, _NO_NAMES)
        found = ConfigSource(DEFAULT, key.name, key.default)
        if key.name in overrides:
            found = ConfigSource(DYNAMIC_TOPIC, key.name, overrides[key.name])
        else:
            for source, values in at.layers:
                if values and not synonyms.isdisjoint(values):
                    text = key.text(topic_default(key.name, values))
                    found = ConfigSource(source, key.name, text)
                    break
        entries.append(DescribedConfig(key, found.value, [found]))
    return entries


def _cluster_entries(at: Configuration) -> list[DescribedConfig]:
    """The values that are set as the default of all brokers."""
    return [
        DescribedConfig(
            key, canonical(key, text), at.synonyms(name, DYNAMIC_DEFAULT), _is_fixed(key)
        )
        for name, text in sorted(at.image.config(BROKER, CLUSTER_DEFAULT).items())
        for key in (_broker_key(name),)
    ]


def _broker_entries(at: Configuration, name: str) -> list[DescribedConfig]:
    """One broker's keys, including configured keys that it does not know."""
    if broker_id(name) is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if broker_id(name) != at.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {at.node_id} or empty string, but received {name}",
        )
    texts = at.texts()
    keys = (_broker_key(name) for name in sorted({*BROKER_KEYS.keys, *texts}))
    return [
        DescribedConfig(
            key,
            canonical(key, texts.get(key.name, key.default)),
            at.synonyms(key.name),
            _is_fixed(key),
        )
        for key in keys
        if not key.internal
    ]


def _is_fixed(key: ConfigKey) -> bool:
    unknown = key.type is ConfigType.UNKNOWN
    return unknown or key.mode is UpdateMode.READ_ONLY or why_fixed(key.name) is not None


def _group_entries(at: Configuration, overrides: Mapping[str, str]) -> list[DescribedConfig]:
    texts = at.texts()
    entries = []
    for name, key in sorted(GROUP_KEYS.keys.items()):
        if key.internal:
            continue
        synonym = broker_synonym(name)
        if synonym is None:
            sources = [ConfigSource(DEFAULT, name, key.default)] if key.default is not None else []
            text = key.default
        else:
            sources = at.synonyms(synonym)
            text = broker_text(name, texts)
        if name in overrides:
            text = canonical(key, overrides[name])
            sources.insert(0, ConfigSource(DYNAMIC_GROUP, name, text))
        entries.append(DescribedConfig(key, canonical(key, text), sources))
    return entries


def _subscription_entries(own: Mapping[str, str]) -> list[DescribedConfig]:
    """A client metrics subscription, whether or not anything is set (KIP-714)."""
    entries = []
    for name, key in sorted(SUBSCRIPTION.keys.items()):
        value = canonical(key, own.get(name, key.default))
        sources = [ConfigSource(DYNAMIC_CLIENT_METRICS, name, value)] if name in own else []
        entries.append(DescribedConfig(key, value, sources))
    return entries


def _broker_key(name: str) -> ConfigKey:
    """The definition of a broker's key under the name that is asked for."""
    key = broker_key(name)
    return unknown_key(name) if key is None else key._replace(name=name)


def canonical(key: ConfigKey, text: str | None) -> str | None:
    """`text` as it reads once it was typed; as it is where it has no such value."""
    try:
        return key.text(key.parse(text))
    except ConfigError:
        return text


def _described(
    entry: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    key = entry.key
    return DescribeConfigsResourceResult(
        name=key.name,
        value=_shown(key, entry.value),
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=_shown(key, s.value), source=s.source)
            for s in entry.synonyms
        ]
        if request.include_synonyms
        else (),
        config_type=key.type.value,
        documentation=(key.doc or None) if request.include_documentation else None,
    )


def _shown(key: ConfigKey, value: str | None) -> str | None:
    """The value for a client: no secret, and no user of an address."""
    return None if key.sensitive or value is None else without_user(value)


_LISTED = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def list_config_resources(
    image: MetadataImage, request: ListConfigResourcesRequest, version: int
) -> ListConfigResourcesResponse:
    """Resources that exist or have a configuration (KIP-1142); version 0 knows client metrics only."""
    kinds = list(dict.fromkeys(request.resource_types)) or list(_LISTED)
    if version == 0:
        kinds = [CLIENT_METRICS]
    unknown = [kind for kind in kinds if kind not in _LISTED]
    if unknown:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = []
    for kind in kinds:
        found += [ConfigResource(resource_name=n, resource_type=kind) for n in _names(image, kind)]
    return ListConfigResourcesResponse(config_resources=found)


def _names(image: MetadataImage, kind: int) -> Iterable[str]:
    if kind == TOPIC:
        return sorted(image.topics_by_name)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(broker) for broker in sorted(image.brokers)]
    return sorted(name for type_, name in image.configs if type_ == kind and name)
