"""Creates topics: each is decided alone, and the records of one request are one batch.

Source: KIP-4, KIP-599, KIP-516 (topic ids), KIP-525 (configurations in the answer);
Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from barnabas.config.topic_names import check_topic_name
from barnabas.controller.atomic_batch import AtomicBatchBuilder, BatchItem
from barnabas.controller.configs.alter_configs import check_values
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.topic_assignments import (
    Assignment,
    Placement,
    check_assignment,
    manual_assignment,
    partition_record,
    place_partitions,
)
from barnabas.controller.policies import check_changed_configs, check_new_topic
from barnabas.metadata.image.image import TOPIC
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.views.describe_configs import Configuration, created_entries
from barnabas.ports import Rng
from barnabas.security.quotas.mutation_quota import UNCOUNTED, MutationQuota
from barnabas.types import METADATA_TOPIC, METADATA_TOPIC_ID, ONE_UUID, ZERO_UUID, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from barnabas.wire.schema import Message

# -- names -----------------------------------------------------------------------------------------


def colliding_name(cluster: ControllerContext, name: str) -> str | None:
    """An existing topic whose metrics would have the same name: metrics write '.' as '_'."""
    if "." not in name and "_" not in name:
        return None
    if name in cluster.image.topics_by_name:
        return name
    plain = name.replace(".", "_")
    for other in cluster.image.collisions.get(plain, ()):
        return other
    return None


# -- creation --------------------------------------------------------------------------------------


def create_topics(
    cluster: ControllerContext,
    request: CreateTopicsRequest,
    rng: Rng,
    *,
    may_describe_configs: bool = True,
    quota: MutationQuota = UNCOUNTED,
) -> Decision[CreateTopicsResponse]:
    """One answer per topic, in the order asked. A request for more than 10,000 records is refused
    as a whole (POLICY_VIOLATION)."""
    asked = Counter(topic.name for topic in request.topics)
    taken: dict[str, str] = {}

    def part(wanted: CreatableTopic) -> BatchItem:
        plain = wanted.name.replace(".", "_")

        def decide() -> tuple[CreatableTopicResult, Iterator[Message]]:
            check_named_once(asked, wanted.name)
            if taken.get(plain) == wanted.name:
                del taken[plain]  # it is decided again
            made = _create(cluster, wanted, rng, taken, may_describe_configs, quota)
            taken[plain] = wanted.name
            return made

        def read_set() -> object:
            return wanted.name in cluster.image.topics_by_name, colliding_name(cluster, wanted.name)

        size = max(wanted.num_partitions, len(wanted.assignments), 1)
        return BatchItem(size, decide, lambda error: _create_error(wanted.name, error), read_set)

    parts = [part(wanted) for wanted in {topic.name: topic for topic in request.topics}.values()]
    return AtomicBatchBuilder(
        cluster,
        parts,
        lambda results: CreateTopicsResponse(topics=results),
        validate_only=request.validate_only,
    ).decision()


def check_named_once(asked: Counter[str], name: str) -> None:
    """Raises INVALID_REQUEST."""
    if asked[name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def _create_error(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message or error.code.name,
        num_partitions=-1, replication_factor=-1,
    )  # fmt: skip


def _create(
    cluster: ControllerContext,
    wanted: CreatableTopic,
    rng: Rng,
    taken: Mapping[str, str],
    may_describe_configs: bool,
    quota: MutationQuota,
) -> tuple[CreatableTopicResult, Iterator[Message]]:
    """One topic's answer and records. Raises KafkaError."""
    _check_new_name(cluster, wanted.name, taken)
    overrides = _check_configs(cluster, wanted)
    if overrides:
        check_changed_configs(cluster.policies, TOPIC, wanted.name, overrides)
    if wanted.assignments:
        placement = _manual(cluster, wanted)
        chosen = {given.partition_index: tuple(given.broker_ids) for given in wanted.assignments}
        check_new_topic(cluster.policies, wanted.name, overrides, assignments=chosen)
    else:
        placement = _placed(cluster, wanted, rng)
        size = (placement.partitions, placement.factor)
        check_new_topic(cluster.policies, wanted.name, overrides, size=size)
    quota.admit(wanted.name, placement.partitions)
    topic_id = new_topic_id(cluster, rng)
    result = CreatableTopicResult(name=wanted.name, topic_id=topic_id, error_message=None)
    if may_describe_configs:
        result.num_partitions = placement.partitions
        result.replication_factor = placement.factor
        result.configs = described_configs(cluster, overrides)
    else:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return result, _topic_records(cluster, wanted.name, topic_id, overrides, placement.assignments)


def _topic_records(
    cluster: ControllerContext,
    name: str,
    topic_id: Uuid,
    overrides: Mapping[str, str],
    assignments: Iterable[Assignment],
) -> Iterator[Message]:
    yield TopicRecord(name=name, topic_id=topic_id)
    for key, value in overrides.items():
        yield ConfigRecord(resource_type=TOPIC, resource_name=name, name=key, value=value)
    for index, assignment in enumerate(assignments):
        yield partition_record(cluster, topic_id, index, assignment)


def _check_new_name(cluster: ControllerContext, name: str, taken: Mapping[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    problem = check_topic_name(name)
    if problem:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name in cluster.image.topics_by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = colliding_name(cluster, name) or taken.get(name.replace(".", "_"))
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _check_configs(cluster: ControllerContext, wanted: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in wanted.configs if config.value is None]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    overrides = {config.name: config.value or "" for config in wanted.configs}
    check_values(cluster, TOPIC, wanted.name, overrides)
    return overrides


def described_configs(
    cluster: ControllerContext, overrides: Mapping[str, str]
) -> list[CreatableTopicConfigs]:
    """The configuration of a topic with `overrides`, by name, with the source of each value."""
    at = Configuration(cluster.image, cluster.node_id, cluster.properties)
    return [
        CreatableTopicConfigs(
            name=entry.key.name,
            value=None if entry.key.sensitive else entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.key.sensitive,
        )
        for entry in created_entries(at, overrides)
    ]


def _placed(cluster: ControllerContext, wanted: CreatableTopic, rng: Rng) -> Placement:
    factor, count = wanted.replication_factor, wanted.num_partitions
    if factor < -1 or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < -1 or count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    settings = cluster.settings
    count = settings.num_partitions if count == -1 else count
    factor = settings.default_replication_factor if factor == -1 else factor
    return Placement(count, factor, place_partitions(cluster, count, factor, rng))


def _manual(cluster: ControllerContext, wanted: CreatableTopic) -> Placement:
    if wanted.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set"
            " to -1.",
        )
    if wanted.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    by_index: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for given in wanted.assignments:
        index = given.partition_index
        if index in by_index:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        by_index[index] = tuple(given.broker_ids)
        check_assignment(cluster, by_index[index], factor)
        factor = len(by_index[index])
    if sorted(by_index) != list(range(len(by_index))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    assignments = [manual_assignment(cluster, i, by_index[i]) for i in range(len(by_index))]
    return Placement(len(assignments), len(by_index[0]), assignments)


def new_topic_id(cluster: ControllerContext, rng: Rng) -> Uuid:
    """A random (version 4) UUID that is not reserved, unused, and does not begin with '-'."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = Uuid(bytes(raw))
        reserved = topic_id in (ZERO_UUID, ONE_UUID, METADATA_TOPIC_ID) or raw[0] >> 2 == 62
        if not reserved and topic_id not in cluster.image.topics_by_id:
            return topic_id
