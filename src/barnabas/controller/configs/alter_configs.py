"""Decides changes of dynamic configuration: the allowed keys, the resources, and the records.

Resources are topics, brokers (one, or the cluster-wide default under the empty name), groups and
client metrics subscriptions. All changes of a resource are validated together: the configuration that
results from them must be valid.

Source: KIP-133, KIP-226, KIP-339, KIP-714, KIP-848; Kafka's ConfigurationControlManager and
ControllerConfigurationValidator; KIP-966 for ``min.insync.replicas`` under ELR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.config.broker import BROKER as BROKER_KEYS
from barnabas.config.broker import broker_id, broker_key, may_update, why_fixed
from barnabas.config.client_metrics import (
    SUBSCRIPTION,
    IllegalPattern,
    SubscriptionRefused,
    check_subscription,
)
from barnabas.config.definition import ConfigError, ConfigKey, ConfigType
from barnabas.config.group import GROUP as GROUP_KEYS
from barnabas.config.group import check_group_overrides
from barnabas.config.listeners import ADDRESS_LIMITS, parse_address_limits
from barnabas.config.node import check_log_times
from barnabas.config.topic import TOPIC as TOPIC_KEYS
from barnabas.config.topic import check_topic_overrides
from barnabas.config.topic_names import check_topic_name
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import MIN_ISR, STRATEGY, ControllerContext
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.controller.policies import check_changed_configs
from barnabas.metadata import features as levels
from barnabas.metadata.image.image import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    CLUSTER_DEFAULT,
    GROUP,
    TOPIC,
)
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import alter_configs_request as legacy
from barnabas.wire.messages import alter_configs_response as legacy_response
from barnabas.wire.messages import incremental_alter_configs_request as incremental
from barnabas.wire.messages import incremental_alter_configs_response as incremental_response
from barnabas.wire.schema import Message

SET, DELETE, APPEND, SUBTRACT = range(4)
CORDONED = "cordoned.log.dirs"
VALUE_BYTES_MAX = 32767
STRATEGIES = ("none", "balanced", "aggressive")


class ConfigChange(NamedTuple):
    """One key's change: SET, DELETE, APPEND or SUBTRACT, and the value (None for DELETE)."""

    key: str
    operation: int
    value: str | None


def incremental_alter(
    cluster: ControllerContext, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[incremental_response.IncrementalAlterConfigsResponse]:
    """IncrementalAlterConfigs. Each resource has its own error; one that is named twice is refused each
    time."""
    records: list[ConfigRecord] = []
    responses = []
    counts = Counter((r.resource_type, r.resource_name) for r in request.resources)
    for resource in request.resources:
        at = (resource.resource_type, resource.resource_name)
        answer = incremental_response.AlterConfigsResourceResponse(
            resource_type=at[0], resource_name=at[1], error_message=None
        )
        changes = [ConfigChange(c.name, c.config_operation, c.value) for c in resource.configs]
        try:
            _check_unique(counts[at] > 1, changes)
            records += alter_resource(cluster, at[0], at[1], changes)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        responses.append(answer)
    return Decision(
        incremental_response.IncrementalAlterConfigsResponse(responses=responses),
        [] if request.validate_only else [*records, *_elr_updates(cluster, records)],
    )


def replace_configs(
    cluster: ControllerContext, request: legacy.AlterConfigsRequest
) -> Decision[legacy_response.AlterConfigsResponse]:
    """AlterConfigs: replaces a resource's configuration, so keys that are not named are removed."""
    records: list[ConfigRecord] = []
    responses = []
    counts = Counter((r.resource_type, r.resource_name) for r in request.resources)
    for resource in request.resources:
        at = (resource.resource_type, resource.resource_name)
        answer = legacy_response.AlterConfigsResourceResponse(
            resource_type=at[0], resource_name=at[1], error_message=None
        )
        changes = [ConfigChange(c.name, SET, c.value) for c in resource.configs]
        try:
            _check_unique(counts[at] > 1, changes)
            given = {change.key for change in changes}
            present = cluster.image.config(at[0], at[1])
            others = [key for key in sorted(present) if key not in given]
            records += alter_resource(cluster, at[0], at[1], changes, others)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        responses.append(answer)
    return Decision(
        legacy_response.AlterConfigsResponse(responses=responses),
        [] if request.validate_only else [*records, *_elr_updates(cluster, records)],
    )


def _check_unique(twice: bool, changes: Iterable[ConfigChange]) -> None:
    if twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    counts = Counter(change.key for change in changes)
    doubled = sorted(key for key, count in counts.items() if count > 1)
    if doubled:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {', '.join(doubled)}"
        )


def alter_resource(
    cluster: ControllerContext,
    kind: int,
    name: str,
    changes: Sequence[ConfigChange],
    dropped: Iterable[str] = (),
) -> list[ConfigRecord]:
    """Records that change one resource and remove its keys `dropped`. Raises KafkaError if the resource, a
    change, or the resulting configuration is invalid."""
    check_resource(kind, name)
    before = cluster.image.config(kind, name)
    after = dict(before)
    for change in changes:
        _apply(kind, after, change, cluster)
    for key in dropped:
        after.pop(key, None)
    _check_elr(cluster, kind, name, before, after)
    _check_cordoned(cluster, kind, before, after)
    check_values(cluster, kind, name, after)
    check_existence(cluster, kind, name)
    named = {change.key: after.get(change.key) for change in changes}
    # A broker's key is written even if its value is unchanged: the key store that it names may have changed.
    changed = {k: v for k, v in named.items() if kind == BROKER or v != before.get(k)}
    check_changed_configs(cluster.policies, kind, name, changed)
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=after.get(key))
        for key in [*before, *(k for k in after if k not in before)]
        if key in changed or key not in after
    ]


def check_resource(kind: int, name: str) -> None:
    """Check type and name of a resource, not whether it exists. Raises INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION."""
    if kind == TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        problem = check_topic_name(name)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    elif kind == BROKER:
        number = broker_id(name)
        if name and number is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unable to parse broker name as a base 10 number: '{name}'.",
            )
        if number is not None and number < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid negative broker id: {name}.")
    elif kind == BROKER_LOGGER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Loggers are configured at the broker that has them."
        )
    elif kind in (GROUP, CLIENT_METRICS):
        if not name:
            what = "group" if kind == GROUP else "client metrics"
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Default {what} resources are not allowed."
            )
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}.")


def check_existence(cluster: ControllerContext, kind: int, name: str) -> None:
    """Check that a topic exists, and that a broker or controller is registered (fenced ones are).
    Raises UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED."""
    image = cluster.image
    if kind == TOPIC and name not in image.topics_by_name:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )
    if kind == BROKER and name:
        node = broker_id(name)
        controllers = (*image.controllers, cluster.node_id, *cluster.voters)
        if node not in image.brokers and node not in controllers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")


def key_of(kind: int, name: str) -> ConfigKey | None:
    """The definition of a key of a resource type; None if the key is unknown."""
    if kind == TOPIC:
        return TOPIC_KEYS.keys.get(name)
    if kind == GROUP:
        return GROUP_KEYS.keys.get(name)
    if kind == CLIENT_METRICS:
        return SUBSCRIPTION.keys.get(name)
    return broker_key(name) if kind == BROKER else None


def _apply(
    kind: int, values: dict[str, str], change: ConfigChange, cluster: ControllerContext
) -> None:
    key, operation, value = change
    if operation == DELETE:
        values.pop(key, None)
        return
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {key}")
    if operation in (APPEND, SUBTRACT):
        value = _altered_list(kind, values, change, cluster)
    elif operation != SET:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation}")
    if len(value.encode()) > VALUE_BYTES_MAX:  # no record with more could be read
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The configuration value for {key} cannot be added because it exceeds the maximum"
            f" value size of {VALUE_BYTES_MAX} bytes.",
        )
    values[key] = value


def _altered_list(
    kind: int, values: Mapping[str, str], change: ConfigChange, cluster: ControllerContext
) -> str:
    definition = key_of(kind, change.key)
    if definition is None or definition.type is not ConfigType.LIST:
        verb = "append" if change.operation == APPEND else "subtract"
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {verb} to key {change.key} because its type is not LIST.",
        )
    present = values.get(change.key)
    if present is None:
        default = cluster.topic_default(change.key) if kind == TOPIC else definition.default
        present = ",".join(default) if isinstance(default, list) else str(default or "")
    items = [part.strip() for part in present.split(",") if part.strip()]
    given = [part.strip() for part in (change.value or "").split(",") if part.strip()]
    if change.operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def check_values(
    cluster: ControllerContext, kind: int, name: str, values: Mapping[str, str]
) -> None:
    """Validate a resource's resulting configuration. Raises INVALID_CONFIG, INVALID_REQUEST."""
    defaults = {**cluster.properties, **cluster.image.config(BROKER, CLUSTER_DEFAULT)}
    try:
        if kind == TOPIC:
            plain = dict(values)
            _check_strategy(plain.pop(STRATEGY, None))
            check_topic_overrides(plain, defaults)
        elif kind == GROUP:
            check_group_overrides(values, defaults)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if kind == BROKER:
        _check_broker_values(name, values)
    elif kind == CLIENT_METRICS:
        _check_subscription(values)


def _check_strategy(value: str | None) -> None:
    if value is not None and value.lower() not in STRATEGIES:
        raise ConfigError(STRATEGY, value, f"it must be one of {', '.join(STRATEGIES)}")


def _check_broker_values(name: str, values: Mapping[str, str]) -> None:
    fixed = [
        key
        for key in values
        if broker_key(key) is not None and not may_update(key, cluster_wide=not name)
    ]
    if fixed:
        reasons = sorted(f"{key} ({why})" if (why := why_fixed(key)) else key for key in fixed)
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {', '.join(reasons)}",
        )
    typed = BROKER_KEYS.defaults()
    try:
        for key, text in values.items():
            definition = broker_key(key)
            if key == STRATEGY:
                _check_strategy(text)
            elif definition is not None:
                typed[key] = definition.parse(text)
        check_log_times(typed)
        parse_address_limits(values.get(ADDRESS_LIMITS, ""))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check_subscription(values: Mapping[str, str]) -> None:
    try:
        check_subscription(values)
    except SubscriptionRefused as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    except (IllegalPattern, ConfigError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_elr(
    cluster: ControllerContext,
    kind: int,
    name: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Under ELR min.insync.replicas is set cluster-wide and not per broker, because ELR relies on it. Raises
    INVALID_CONFIG."""
    if kind != BROKER or not cluster.elr_enabled or before.get(MIN_ISR) == after.get(MIN_ISR):
        return
    if name:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
        )
    if MIN_ISR not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
        )


def _check_cordoned(
    cluster: ControllerContext, kind: int, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Directories can be cordoned from a metadata version on; below it no record holds them. Raises
    INVALID_CONFIG."""
    known = cluster.image.metadata_version >= levels.CORDONED_SINCE
    if kind == BROKER and not known and before.get(CORDONED) != after.get(CORDONED):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The {CORDONED} configuration value cannot be set because it requires metadata.version >="
            f" {levels.metadata_version_name(levels.CORDONED_SINCE)}",
        )


def _elr_updates(cluster: ControllerContext, records: Iterable[ConfigRecord]) -> list[Message]:
    """Records that empty the ELR of partitions whose ISR reaches the min.insync.replicas that `records` set:
    their high watermark advances without the ELR. All records of a request count together, for one request
    may remove a topic's value and change the cluster-wide one."""
    changed = {(r.resource_type, r.resource_name): r.value for r in records if r.name == MIN_ISR}
    if not changed or not cluster.elr_enabled:
        return []
    image, everywhere = cluster.image, (BROKER, CLUSTER_DEFAULT)
    default = changed.get(everywhere, image.config(*everywhere).get(MIN_ISR))
    updates: list[Message] = []
    for topic in list(image.topics_by_name.values()):
        at = (TOPIC, topic.name)
        own = changed[at] if at in changed else image.config(*at).get(MIN_ISR)
        if at not in changed and (own is not None or everywhere not in changed):
            continue
        value = default if own is None else own
        rules = cluster.rules(topic)._replace(
            min_isr=int(value) if value else cluster.settings.min_insync_replicas
        )
        for index in sorted(topic.rare):
            change = PartitionChangeBuilder(
                cluster, topic, index, f"{MIN_ISR} is {rules.min_isr} now"
            )
            change.rules = rules
            record = change.build()
            if record is not None:
                updates.append(record)
    return updates
