"""Further administration: configurations with synonyms, elections, and deletion of records, groups and
committed offsets.

Like `admin`: each function is a coroutine over `Client`. An error of the whole request is raised as
`KafkaError`; an error of one item is that item's value. Source: KIP-107, KIP-226, KIP-229, KIP-460, KIP-496,
KIP-569.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.client.client import GROUP, Client, raise_for
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages import delete_records_request as records
from barnabas.wire.messages import elect_leaders_request as leaders
from barnabas.wire.messages import offset_delete_request as offsets
from barnabas.wire.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER_KIND, LOGGER_KIND = 4, 8
PREFERRED, UNCLEAN = 0, 1
"""Kinds of election."""
TIMEOUT_MS = 30_000
Refusals = dict[TopicPartition, KafkaError | None]
"""The error of each partition; None if it succeeded."""


class Setting(NamedTuple):
    """A value that is set for a key or one of its synonyms; `source` is Kafka's number."""

    source: int
    name: str
    value: str | None


class DescribedKey(NamedTuple):
    """One key with all fields of DescribeConfigs."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    type: int
    documentation: str
    synonyms: tuple[Setting, ...]
    """In order of precedence."""


class ConfigEdit(NamedTuple):
    """One key's change; `operation` is Kafka's number: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str
    operation: int
    value: str | None


async def describe_keys(
    client: Client, kind: int, name: str, keys: Sequence[str] = ()
) -> list[DescribedKey]:
    """All keys of a resource, or only `keys`. Keys of a broker and its loggers are asked of that broker.
    Raises `KafkaError`, `ChannelError`."""

    def request() -> DescribeConfigsRequest:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
        )
        return DescribeConfigsRequest(
            resources=[resource], include_synonyms=True, include_documentation=True
        )

    if is_of_one_broker(kind, name):
        response = await client.ask_node(int(name), request())
        _check_results(response.results)
    else:
        response = await client.ask_any(request, lambda r: _check_results(r.results))
    return [
        DescribedKey(
            c.name, c.value, c.config_source, c.read_only, c.is_sensitive, c.config_type,
            c.documentation or "",
            tuple(Setting(s.source, s.name, s.value) for s in c.synonyms),
        )
        for result in response.results
        for c in result.configs
    ]  # fmt: skip


async def change_configs(
    client: Client, kind: int, name: str, changes: Sequence[ConfigEdit], *, validate_only: bool
) -> None:
    """Make all changes of one resource, or none; with `validate_only` only check them. Raises
    `KafkaError`."""

    def request() -> IncrementalAlterConfigsRequest:
        configs = [
            AlterableConfig(name=c.name, config_operation=c.operation, value=c.value)
            for c in changes
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

    if kind == LOGGER_KIND or (
        kind == BROKER_KIND and name and int(name) in client.cluster.brokers
    ):
        # Asked of that broker, so that a describe request that follows sees the change.
        _check_results((await client.ask_node(int(name), request())).responses)
    else:
        await client.ask_any(request, lambda r: _check_results(r.responses))


def is_of_one_broker(kind: int, name: str) -> bool:
    """Whether only the broker `name` can answer."""
    return kind in (BROKER_KIND, LOGGER_KIND) and bool(name)


async def elect(
    client: Client, kind: int, partitions: Collection[TopicPartition] | None
) -> Refusals:
    """Elect leaders for `partitions`, or (None) for all partitions that need it. Raises `KafkaError`."""

    def request() -> leaders.ElectLeadersRequest:
        asked = None
        if partitions is not None:
            asked = [
                leaders.TopicPartitions(topic=name, partitions=indexes)
                for name, indexes in by_topic(sorted(partitions)).items()
            ]
        return leaders.ElectLeadersRequest(
            election_type=kind, topic_partitions=asked, timeout_ms=TIMEOUT_MS
        )

    response = await client.ask_any(request, lambda r: raise_for(r.error_code))
    return {
        TopicPartition(topic.topic, partition.partition_id): _refusal(
            partition.error_code, partition.error_message
        )
        for topic in response.replica_election_results
        for partition in topic.partition_result
    }


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Delete the records before these offsets (-1: the high watermark). Returns each partition's new low
    watermark, or its error. Raises `ChannelError`."""
    await client.cluster.refresh(sorted({tp.topic for tp in before}))
    outcome: dict[TopicPartition, int | KafkaError] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for tp in sorted(before):
        leader = client.cluster.leader(tp)
        if leader is None:
            outcome[tp] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "the partition has no leader")
        else:
            by_leader.setdefault(leader, []).append(tp)
    for leader, partitions in sorted(by_leader.items()):
        request = records.DeleteRecordsRequest(
            topics=[
                records.DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        records.DeleteRecordsPartition(
                            partition_index=index, offset=before[TopicPartition(name, index)]
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in by_topic(sorted(partitions)).items()
            ],
            timeout_ms=TIMEOUT_MS,
        )
        response = await client.ask_node(leader, request, timeout_ms=TIMEOUT_MS + 5_000)
        left_out = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the leader did not answer for it")
        outcome.update(dict.fromkeys(partitions, left_out))
        for topic in response.topics:
            for partition in topic.partitions:
                refused = _refusal(partition.error_code, None)
                at = TopicPartition(topic.name, partition.partition_index)
                outcome[at] = partition.low_watermark if refused is None else refused
    return outcome


async def delete_group(client: Client, group_id: str) -> None:
    """Delete a group with its committed offsets. Raises `KafkaError` (NON_EMPTY_GROUP,
    GROUP_ID_NOT_FOUND)."""

    def check(response: Any) -> None:
        for result in response.results:
            raise_for(result.error_code)

    await client.ask_coordinator(
        GROUP, group_id, lambda: DeleteGroupsRequest(groups_names=[group_id]), check
    )


async def delete_offsets(
    client: Client, group_id: str, partitions: Collection[TopicPartition]
) -> Refusals:
    """Delete a group's committed offsets of `partitions`. Raises `KafkaError`."""

    def request() -> offsets.OffsetDeleteRequest:
        topics = [
            offsets.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    offsets.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                ],
            )
            for name, indexes in by_topic(sorted(partitions)).items()
        ]
        return offsets.OffsetDeleteRequest(group_id=group_id, topics=topics)

    response = await client.ask_coordinator(
        GROUP, group_id, request, lambda r: raise_for(r.error_code)
    )
    return {
        TopicPartition(topic.name, partition.partition_index): _refusal(partition.error_code, None)
        for topic in response.topics
        for partition in topic.partitions
    }


def _refusal(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(code_of(code), message or "") if code else None


def _check_results(results: Iterable[Any]) -> None:
    for result in results:
        raise_for(result.error_code, result.error_message)
