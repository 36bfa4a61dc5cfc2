"""Commands of the controller's scripts about configuration, feature levels, producer ids and directories.

A resource is written ``topic:t``, ``broker:1``, ``brokers`` (the default of all), ``group:g`` or
``metrics:m``; what ends in ``dry`` is only to be validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from barnabas.config.definition import ConfigType
from barnabas.metadata.views import metadata_tree
from barnabas.metadata.views.cluster_events import EventReader
from barnabas.types import Endpoint, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs_request as legacy
from barnabas.wire.messages import assign_replicas_to_dirs_request as assign
from barnabas.wire.messages import broker_registration_request as registration
from barnabas.wire.messages import describe_configs_request as described
from barnabas.wire.messages import incremental_alter_configs_request as incremental
from barnabas.wire.messages import update_features_request as features
from barnabas.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from tests.unit.controller.harness import CLUSTER_ID, World, uuid

KINDS = {"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32}
NAMES = {number: name for name, number in KINDS.items()}
OPERATIONS = {"=": 0, "!": 1, "+=": 2, "-=": 3}
SOURCES = {
    1: "topic", 2: "broker", 3: "all brokers", 4: "file", 5: "default", 7: "metrics", 8: "group"
}  # fmt: skip
KEY = re.compile(r"([a-z0-9._-]+?)(\+=|-=|=|!)(.*)\Z")


def resource(text: str) -> tuple[int, str]:
    """Type and name."""
    kind, _, name = text.partition(":")
    return KINDS["broker" if kind == "brokers" else kind], name


# -- configuration ---------------------------------------------------------------------------------


def configure(world: World, which: str, *words: str) -> str:
    """``topic:t key=value key+=value key-=value key! [dry]``"""
    kind, name = resource(which)
    changes = []
    for word in words:
        if word != "dry":
            match = KEY.match(word)
            assert match is not None, word
            key, sign, value = match.groups()
            operation = OPERATIONS[sign]
            changes.append(
                incremental.AlterableConfig(
                    name=key, config_operation=operation, value=None if sign == "!" else value
                )
            )
    wanted = incremental.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=changes
    )
    answer = world.ask(
        incremental.IncrementalAlterConfigsRequest(resources=[wanted], validate_only="dry" in words)
    )
    return said(answer.responses[0])


def replace(world: World, which: str, *pairs: str) -> str:
    """The older AlterConfigs: ``topic:t key=value``; what is not named goes."""
    kind, name = resource(which)
    given = [
        legacy.AlterableConfig(name=key, value=value)
        for key, _, value in (pair.partition("=") for pair in pairs)
    ]
    wanted = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
    return said(world.ask(legacy.AlterConfigsRequest(resources=[wanted])).responses[0])


def describe(world: World, which: str, *keys: str) -> str:
    """Value, type, and where else the key is set, strongest first."""
    kind, name = resource(which)
    wanted = described.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    answer = world.ask(
        described.DescribeConfigsRequest(
            resources=[wanted], include_synonyms=True, include_documentation=True
        )
    )
    result = answer.results[0]
    if result.error_code:
        return said(result)
    return "; ".join(map(_described, result.configs)) or "nothing"


def _described(config: Any) -> str:
    parts = [f"{config.name}={config.value}", ConfigType(config.config_type).name.lower()]
    parts += ["read-only"] * config.read_only + ["secret"] * config.is_sensitive
    parts += ["documented"] * bool(config.documentation)
    where = " < ".join(f"{SOURCES[s.source]} {s.name}={s.value}" for s in config.synonyms)
    return f"{' '.join(parts)} from {SOURCES[config.config_source]} ({where})"


def resources(world: World, *kinds: str) -> str:
    """ListConfigResources of these types, or of all."""
    wanted = [KINDS[kind] for kind in kinds]
    answer = world.ask(ListConfigResourcesRequest(resource_types=wanted))
    found = [f"{NAMES[r.resource_type]}:{r.resource_name}" for r in answer.config_resources]
    return " ".join(found) or "none"


# -- only validated, and policy --------------------------------------------------------------------


def try_place(world: World, name: str, partitions: str, factor: str) -> str:
    """CreateTopics, validated only."""
    topic = CreatableTopic(
        name=name, num_partitions=int(partitions), replication_factor=int(factor)
    )
    made = world.ask(CreateTopicsRequest(topics=[topic], validate_only=True)).topics[0]
    if made.error_code:
        return said(made)
    return f"{made.num_partitions} partitions, {made.replication_factor} replicas"


def try_grow(world: World, name: str, total: str) -> str:
    """CreatePartitions, validated only."""
    topic = CreatePartitionsTopic(name=name, count=int(total), assignments=None)
    answer = world.ask(CreatePartitionsRequest(topics=[topic], validate_only=True))
    return said(answer.results[0])


def place_many(world: World, topics: str, partitions: str) -> str:
    """So many topics of so many partitions in one request: how they were answered."""
    wanted = [
        CreatableTopic(name=f"many{i}", num_partitions=int(partitions), replication_factor=1)
        for i in range(int(topics))
    ]
    answer = world.ask(CreateTopicsRequest(topics=wanted))
    return "; ".join(dict.fromkeys(said(topic) for topic in answer.topics))


# -- feature levels --------------------------------------------------------------------------------


def level(world: World, *words: str) -> str:
    """``metadata.version=30 group.version=1 [upgrade | downgrade | unsafe] [dry]``"""
    kinds = {"upgrade": 1, "downgrade": 2, "unsafe": 3}
    kind = next((kinds[word] for word in words if word in kinds), 1)
    updates = [
        features.FeatureUpdateKey(feature=name, max_version_level=int(to), upgrade_type=kind)
        for name, _, to in (word.partition("=") for word in words if "=" in word)
    ]
    answer = world.ask(
        features.UpdateFeaturesRequest(feature_updates=updates, validate_only="dry" in words)
    )
    return said(answer)


def levels(world: World) -> str:
    """What is finalized."""
    return " ".join(f"{name}={at}" for name, at in sorted(world.image.features.items()))


def joins_with(world: World, broker: str, *ranges: str) -> str:
    """``4 metadata.version=7-29``: a broker that supports these levels of these features only."""
    offered = []
    for name, _, span in (word.partition("=") for word in ranges):
        low, _, high = span.partition("-")
        offered.append(
            registration.Feature(
                name=name, min_supported_version=int(low), max_supported_version=int(high)
            )
        )
    number = int(broker)
    answer = world.ask(
        registration.BrokerRegistrationRequest(
            broker_id=number,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid(1000 + number),
            listeners=[registration.Listener(name="PLAINTEXT", host="h", port=9000 + number)],
            features=offered,
            log_dirs=[uuid(2000 + number)],
        )
    )
    if not answer.error_code:
        world.epochs[number] = answer.broker_epoch
    return said(answer)


# -- producer ids and directories ------------------------------------------------------------------


def producer_ids(world: World, broker: str, stale: str = "") -> str:
    """The next block for a broker, or for one with an epoch that is over."""
    epoch = world.epochs[int(broker)] - bool(stale)
    answer = world.ask(AllocateProducerIdsRequest(broker_id=int(broker), broker_epoch=epoch))
    if answer.error_code:
        return said(answer)
    first = answer.producer_id_start
    return f"{first} to {first + answer.producer_id_len - 1}"


def directory(world: World, broker: str, number: str, partition: str) -> str:
    """``1 7 t-0``: broker 1 says that its replica is in its directory 7 (0: its first)."""
    name, _, index = partition.rpartition("-")
    topic = world.image.topics_by_name.get(name)
    data = assign.TopicData(
        topic_id=topic.id if topic is not None else uuid(99),
        partitions=[assign.PartitionData(partition_index=int(index))],
    )
    at = directory_id(int(broker), int(number))
    answer = world.ask(
        assign.AssignReplicasToDirsRequest(
            broker_id=int(broker),
            broker_epoch=world.epochs[int(broker)],
            directories=[assign.DirectoryData(id=at, topics=[data])],
        )
    )
    part = answer.directories[0].topics[0].partitions[0] if answer.directories else answer
    return said(part)


def directory_id(broker: int, number: int) -> Uuid:
    """Brokers of the scripts begin with directory 0."""
    return uuid(2000 + broker + 100 * number)


def directories(world: World, partition: str) -> str:
    """Where each replica is."""
    name, _, index = partition.rpartition("-")
    state = world.image.topics_by_name[name].partition(int(index))
    found = []
    for broker, at in zip(state.replicas, state.directories, strict=True):
        number = int.from_bytes(at, "big")
        where = str((number - 2000 - broker) // 100) if number > 2000 else "unassigned"
        found.append(f"{broker}:{where}")
    return " ".join(found)


def joins_in(world: World, broker: str, *numbers: str) -> str:
    """``4 0 1``: a broker with these directories registers and is unfenced."""
    number = int(broker)
    answer = world.register(
        number, directories=tuple(directory_id(number, int(each)) for each in numbers)
    )
    if not answer.error_code:
        world.heartbeat(number)
    return said(answer)


def revive_behind(world: World, broker: str) -> str:
    """A new process registers after a clean shutdown, and has not replayed that yet."""
    number = int(broker)
    world.ports.network.refusing.discard(Endpoint("h", 9000 + number))
    world.register(number, incarnation=8000 + number, previous_epoch=world.epochs[number])
    return _heard(world.heartbeat(number, offset=world.epochs[number] - 1))


def catch_up(world: World, broker: str) -> str:
    """Its next heartbeat says that it has."""
    return _heard(world.heartbeat(int(broker)))


def _heard(answer: Any) -> str:
    caught_up = "caught up" if answer.is_caught_up else "behind"
    return f"{'fenced' if answer.is_fenced else 'unfenced'}, {caught_up}"


# -- what is said ---------------------------------------------------------------------------------


def cat(world: World, path: str) -> str:
    """The value at a path of the metadata tree; of a directory the names below."""
    try:
        node = metadata_tree.at(world.image, path)
    except metadata_tree.NoSuchPathError as error:
        return str(error)
    if callable(node):
        return " ".join(node())
    return str(node)


def events(world: World, kind: str, count: str) -> str:
    """The last events of a kind, as the log tells them."""
    reader = EventReader()
    found = []
    for batch in world.quorum.batches:
        base = batch.last_offset + 1 - len(batch.values)
        found += [e for e in reader.feed(batch.values, base, 0) if e.kind == kind]
    return "\n  ".join(map(str, found[-int(count) :]))


def metrics(world: World, *names: str) -> str:
    """What the controller counts, by the last part of the name."""
    answer = world.ask(DescribeClusterRequest(endpoint_type=2, include_metrics=True))
    told = {m.name.partition("name=")[2]: m.value for m in answer.metrics}
    return " ".join(f"{name}={told[name]}" for name in names or told)


def said(answer: Any) -> str:
    if not answer.error_code:
        return "NONE"
    message = getattr(answer, "error_message", "") or ""
    return f"{ErrorCode(answer.error_code).name}: {message}".rstrip(": ")


COMMANDS: dict[str, Callable[..., str | None]] = {
    "configure": configure, "replace": replace, "describe": describe, "resources": resources,
    "try_place": try_place, "try_grow": try_grow, "place_many": place_many,
    "level": level, "levels": levels, "joins_with": joins_with, "joins_in": joins_in,
    "producer_ids": producer_ids, "directory": directory, "directories": directories,
    "revive_behind": revive_behind, "catch_up": catch_up, "cat": cat, "events": events, "metrics": metrics,
}  # fmt: skip
