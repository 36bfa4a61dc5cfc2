"""DescribeConfigs and ListConfigResources over an image: values, sources, synonyms, types.

Pure: a broker answers from its committed image, a controller from its own. Nothing sensitive is
shown. Source: KIP-133, KIP-226, KIP-569 (types and documentation), KIP-1142.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.config.broker import BROKER as BROKER_KEYS
from barnabas.config.broker import broker_key, broker_synonyms, why_fixed
from barnabas.config.definition import ConfigKey, ConfigType, ConfigValue, UpdateMode
from barnabas.config.group import GROUP as GROUP_KEYS
from barnabas.config.group import broker_synonym
from barnabas.config.topic import BROKER_SYNONYMS, Synonym
from barnabas.config.topic import TOPIC as TOPIC_KEYS
from barnabas.metadata.image import (
    BROKER,
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


class Source(NamedTuple):
    """One place a value may come from: its source number, the key's name there, its text."""

    source: int
    name: str
    value: str | None


class Configuration(NamedTuple):
    """What DescribeConfigs reads: the image, this node's id and its properties as text."""

    image: MetadataImage
    node_id: int
    properties: Mapping[str, str]

    def broker_sources(self, name: str, broker: int | None) -> list[Source]:
        """Where a broker's key `name` is set, strongest first, without its default."""
        found = []
        if broker is not None:
            own = self.image.config(BROKER, str(broker)).get(name)
            if own is not None:
                found.append(Source(DYNAMIC_BROKER, name, own))
        common = self.image.config(BROKER, CLUSTER_DEFAULT).get(name)
        if common is not None:
            found.append(Source(DYNAMIC_DEFAULT, name, common))
        if name in self.properties and (broker is None or broker == self.node_id):
            found.append(Source(STATIC, name, self.properties[name]))
        return found


def topic_sources(at: Configuration, key: ConfigKey, overrides: Mapping[str, str]) -> list[Source]:
    """Where a topic's key is set, strongest first, ending with the default."""
    found = []
    if key.name in overrides:
        found.append(Source(DYNAMIC_TOPIC, key.name, overrides[key.name]))
    for synonym in BROKER_SYNONYMS.get(key.name, ()):
        for source in at.broker_sources(synonym.name, None):
            found.append(source._replace(value=_in_topic_unit(source.value, synonym)))
    synonyms = BROKER_SYNONYMS.get(key.name, ())
    shown = synonyms[0].name if synonyms else key.name
    found.append(Source(DEFAULT, shown, _default_text(key)))
    return found


def _in_topic_unit(text: str | None, synonym: Synonym) -> str | None:
    if text is None or synonym.factor == 1:
        return text
    value = int(text)
    return str(value if value < 0 else value * synonym.factor)


def _default_text(key: ConfigKey) -> str | None:
    return key.default


def describe_configs(
    at: Configuration,
    request: DescribeConfigsRequest,
    *,
    loggers: Callable[[], Mapping[str, str]] | None = None,
) -> DescribeConfigsResponse:
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
    wanted = resource.configuration_keys
    result.configs = [
        _described(key, sources, read_only, request)
        for key, sources, read_only in entries
        if wanted is None or key.name in wanted
    ]
    return result


Entry = tuple[ConfigKey, list[Source], bool]
"""Key, where it is set (strongest first), whether it may not be changed."""


def _entries(at: Configuration, kind: int, name: str) -> list[Entry]:
    if kind == TOPIC:
        if name not in at.image.topics_by_name:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{name}'."
            )
        return topic_entries(at, at.image.config(TOPIC, name))
    if kind == BROKER:
        return _broker_entries(at, name)
    if kind == GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return _group_entries(at, at.image.config(GROUP, name))
    if kind == CLIENT_METRICS:
        own = at.image.config(CLIENT_METRICS, name)
        return [
            (_plain_key(key), [Source(DYNAMIC_CLIENT_METRICS, key, text)], False)
            for key, text in sorted(own.items())
        ]
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def topic_entries(at: Configuration, overrides: Mapping[str, str]) -> list[Entry]:
    """Every key of a topic with `overrides`, by name."""
    keys = TOPIC_KEYS.keys
    entries: list[Entry] = [
        (keys[name], topic_sources(at, keys[name], overrides), False)
        for name in sorted(keys)
        if not keys[name].internal
    ]
    # Keys that Kafka's table lacks (unclean.recovery.strategy) are shown where they are set.
    entries += [
        (_plain_key(name), [Source(DYNAMIC_TOPIC, name, overrides[name])], False)
        for name in sorted(overrides)
        if name not in keys
    ]
    return entries


def _broker_entries(at: Configuration, name: str) -> list[Entry]:
    """One broker's keys; under the empty name what is set as the default of all."""
    if not name:
        common = at.image.config(BROKER, CLUSTER_DEFAULT)
        return [
            (broker_key(key) or _plain_key(key), [Source(DYNAMIC_DEFAULT, key, text)], False)
            for key, text in sorted(common.items())
        ]
    if not name.isdigit() or int(name) != at.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {at.node_id} or empty string, but received {name}",
        )
    names = dict.fromkeys(sorted(BROKER_KEYS.keys))
    names.update(dict.fromkeys(sorted(at.image.config(BROKER, name))))
    entries = []
    for each in names:
        key = broker_key(each) or _plain_key(each)
        if key.internal:
            continue
        sources = []
        for synonym in broker_synonyms(each):
            sources += at.broker_sources(synonym, at.node_id)
            if synonym in BROKER_KEYS and BROKER_KEYS[synonym].default is not None:
                sources.append(Source(DEFAULT, synonym, BROKER_KEYS[synonym].default))
        sources.sort(key=lambda source: source.source)
        fixed = key.mode is UpdateMode.READ_ONLY or why_fixed(key.name) is not None
        entries.append((key, sources, fixed))
    return entries


def _group_entries(at: Configuration, overrides: Mapping[str, str]) -> list[Entry]:
    entries = []
    for name in sorted(GROUP_KEYS.keys):
        key = GROUP_KEYS.keys[name]
        sources = []
        if name in overrides:
            sources.append(Source(DYNAMIC_GROUP, name, overrides[name]))
        synonym = broker_synonym(name)
        if synonym is not None:
            sources += at.broker_sources(synonym, None)
        sources.append(Source(DEFAULT, synonym or name, _default_text(key)))
        entries.append((key, sources, False))
    return entries


def _plain_key(name: str) -> ConfigKey:
    """A definition for a key that no table has: text, shown to nobody in case it is a secret."""
    template = next(iter(BROKER_KEYS.keys.values()))
    return template._replace(
        name=name, type=ConfigType.STRING, default=None, required=False,
        mode=UpdateMode.CLUSTER_WIDE, internal=False, doc="",
    )  # fmt: skip


def _described(
    key: ConfigKey, sources: list[Source], read_only: bool, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    strongest = sources[0] if sources else Source(DEFAULT, key.name, None)
    hidden = key.sensitive

    def shown(value: str | None) -> str | None:
        return None if hidden else value

    return DescribeConfigsResourceResult(
        name=key.name,
        value=shown(strongest.value),
        read_only=read_only,
        config_source=strongest.source,
        is_sensitive=hidden,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=shown(s.value), source=s.source)
            for s in sources
        ]
        if request.include_synonyms
        else (),
        config_type=key.type.value,
        documentation=key.doc if request.include_documentation else None,
    )


_LISTED = (TOPIC, BROKER, CLIENT_METRICS, GROUP)


def list_config_resources(
    image: MetadataImage, request: ListConfigResourcesRequest, version: int
) -> ListConfigResourcesResponse:
    """Resources that exist or have a configuration (KIP-1142); version 0 knows client metrics only."""
    kinds = list(dict.fromkeys(request.resource_types)) or list(_LISTED)
    if version == 0:
        kinds = [CLIENT_METRICS]
    unknown = [kind for kind in kinds if kind not in _LISTED and kind != 8]
    if unknown:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = []
    for kind in kinds:
        found += [ConfigResource(resource_name=n, resource_type=kind) for n in _names(image, kind)]
    return ListConfigResourcesResponse(config_resources=found)


def _names(image: MetadataImage, kind: int) -> Iterable[str]:
    if kind == TOPIC:
        return sorted(image.topics_by_name)
    if kind == BROKER:
        return [str(broker) for broker in sorted(image.brokers)]
    return sorted(name for type_, name in image.configs if type_ == kind and name)


def value_of(sources: list[Source], key: ConfigKey) -> ConfigValue:
    """The typed value that holds."""
    return key.parse(sources[0].value) if sources else None
