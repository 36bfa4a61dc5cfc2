"""Offsets of consumer groups, translated: read in the source, kept and committed in the target.

Owns the topic ``<alias>.checkpoints.internal`` of the target, in MirrorMaker's format: its
``RemoteClusterUtils.translateOffsets`` reads it, and so does ``barnabas pipeline offsets``, also when the
source is gone. Source: KIP-382; KIP-545.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

from barnabas.client.client import GROUP
from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.mirror.offset_formats import GroupCheckpoint, checkpoint_from
from barnabas.pipeline.mirror.offset_syncs import OffsetSyncs, append, read_all, remote_topic
from barnabas.pipeline.offsets import PartitionOffsets
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.read.lag import commit_offsets
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_groups_request import ListGroupsRequest
from barnabas.wire.messages.list_groups_response import ListGroupsResponse
from barnabas.wire.messages.offset_fetch_request import OffsetFetchRequest
from barnabas.wire.messages.offset_fetch_response import OffsetFetchResponse

log = logging.getLogger(__name__)

ONE_GROUP = 7
"""The last version of OffsetFetch that asks for one group."""
OWN = "spark-"
"""Groups that show the lag of queries: they read nothing by them."""


def checkpoints_topic(alias: str) -> str:
    return f"{alias or 'source'}.checkpoints.internal"


def groups_of(cluster: ClusterClient, pattern: str) -> list[str]:
    """Names of the groups that match. Raises `KafkaError`, `ChannelError`."""
    wanted = re.compile(pattern)
    found: set[str] = set()
    cluster.topics([])
    for endpoint in cluster.brokers():
        answer = cluster.call(endpoint, ListGroupsRequest(), ListGroupsResponse)
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            raise KafkaError(ErrorCode(answer.error_code), "listing groups")
        found.update(group.group_id for group in answer.groups)
    return sorted(group for group in found if wanted.fullmatch(group) and not group.startswith(OWN))


def committed_by(cluster: ClusterClient, group: str) -> PartitionOffsets:
    """The offsets that the group has committed, of all topics."""
    request = OffsetFetchRequest(group_id=group, topics=None, require_stable=True)
    answer = cluster.ask_coordinator(
        GROUP, group, request, OffsetFetchResponse, _codes, at_most=ONE_GROUP
    )
    return {
        TopicPartition(topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def _codes(response: OffsetFetchResponse) -> Iterator[int]:
    yield response.error_code
    for topic in response.topics:
        for partition in topic.partitions:
            yield partition.error_code


class GroupCheckpoints:
    """The checkpoints of one mirror: `source_client` asks the cluster that it reads."""

    def __init__(
        self,
        source_client: ClusterClient,
        target: SinkOptions,
        alias: str,
        pattern: str,
        syncs: OffsetSyncs,
    ) -> None:
        self._source_client = source_client
        self._target = target
        self._alias = alias
        self._pattern = pattern
        self._syncs = syncs
        self._written: dict[bytes, bytes] = {}

    def write(self) -> None:
        """Write what has changed since the last time. A failure is a warning: records come first."""
        try:
            fresh = {}
            for group in groups_of(self._source_client, self._pattern):
                for of, upstream in committed_by(self._source_client, group).items():
                    downstream = self._syncs.translated(of, upstream)
                    if downstream is None:
                        continue
                    there = TopicPartition(remote_topic(self._alias, of.topic), of.partition)
                    checkpoint = GroupCheckpoint(group, there, upstream, downstream)
                    if self._written.get(checkpoint.key()) != checkpoint.value():
                        fresh[checkpoint.key()] = checkpoint.value()
            append(self._target, checkpoints_topic(self._alias), fresh.items())
            self._written.update(fresh)
        except (KafkaError, ChannelError, PipelineError) as error:
            log.warning("pipeline.group_offsets_not_mirrored: %s", error)


def translated_offsets(
    target: SinkOptions, alias: str, group: str | None = None
) -> dict[str, dict[TopicPartition, GroupCheckpoint]]:
    """The checkpoints by group, as the mirror wrote them last. Raises `PipelineError`."""
    found: dict[str, dict[TopicPartition, GroupCheckpoint]] = {}
    for key, value in read_all(target, checkpoints_topic(alias)):
        checkpoint = checkpoint_from(key, value)
        if group in (None, checkpoint.group):
            found.setdefault(checkpoint.group, {})[checkpoint.of] = checkpoint
    return found


def commit_translated(
    target: SinkOptions, group: str, checkpoints: dict[TopicPartition, GroupCheckpoint]
) -> None:
    """In the target, for a group without members there. Raises `PipelineError`."""
    at = {of: checkpoint.downstream for of, checkpoint in checkpoints.items()}
    if not commit_offsets(target.cluster.connect(), group, at):
        raise PipelineError(
            f"the offsets of group {group} cannot be committed: it has members, or no right"
        )
