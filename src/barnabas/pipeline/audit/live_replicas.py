"""Replicas of a cluster that runs: each broker is asked for its own copy, as a consumer in its rack would.

Owns the plan (which partitions, up to which offset) and the reading of one replica by Fetch from a given
broker (KIP-392: followers answer consumers up to the high watermark they know). What a replica does not show
in time is a finding: it is behind, or has lost it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barnabas.client.client import may_pass
from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.audit.replica_check import ReplicaCheck, ReplicaReport
from barnabas.pipeline.cluster_client import ClusterClient, offsets_of_all
from barnabas.pipeline.errors import ClusterUnreachableError
from barnabas.pipeline.offsets import EARLIEST, LATEST
from barnabas.pipeline.options import ClusterOptions, Subscription
from barnabas.pipeline.patience import Patience
from barnabas.pipeline.positions.offset_resolution import partitions_at_start
from barnabas.record.batch import CorruptBatchError, iterate
from barnabas.types import Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, code_of
from barnabas.wire.messages import describe_configs_request, fetch_request, metadata_request
from barnabas.wire.messages.describe_configs_response import DescribeConfigsResponse
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.messages.metadata_response import MetadataResponse

TOPIC_RESOURCE = 2
FETCH_BYTES = 4 << 20
WAIT_MS = 500
TIMEOUT_MS = 15_000.0


@dataclass(frozen=True, slots=True)
class LiveReplica:
    """One replica: offsets from `start` up to `end` are to be there."""

    topic: str
    partition: int
    broker: int
    endpoint: Endpoint
    topic_id: Uuid
    start: int
    end: int
    compacted: bool


def plan(
    options: ClusterOptions, subscription: Subscription, *, replicas: bool
) -> list[LiveReplica]:
    """In-sync replicas of what is subscribed, or leaders alone. Raises `PipelineError`, `KafkaError`."""
    cluster = options.connect()
    partitions = sorted(partitions_at_start(cluster, subscription))
    names = sorted({partition.topic for partition in partitions})
    request = metadata_request.MetadataRequest(
        topics=[metadata_request.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    answer = cluster.call_any(request, MetadataResponse)
    brokers = {broker.node_id: Endpoint(broker.host, broker.port) for broker in answer.brokers}
    patience_ms = cluster.patience_ms
    starts = offsets_of_all(cluster, dict.fromkeys(partitions, EARLIEST), patience_ms=patience_ms)
    ends = offsets_of_all(cluster, dict.fromkeys(partitions, LATEST), patience_ms=patience_ms)
    compacted = {name: _is_compacted(cluster, name) for name in names}
    found = []
    for topic in answer.topics:
        for partition in topic.partitions:
            of = TopicPartition(topic.name or "", partition.partition_index)
            if of not in starts:
                continue
            wanted = sorted(partition.isr_nodes) if replicas else [partition.leader_id]
            found += [
                LiveReplica(
                    *of,
                    node,
                    brokers[node],
                    topic.topic_id,
                    starts[of],
                    ends[of],
                    compacted[of.topic],
                )
                for node in wanted
                if node in brokers
            ]
    return found


def _is_compacted(cluster: ClusterClient, topic: str) -> bool:
    resource = describe_configs_request.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["cleanup.policy"]
    )
    request = describe_configs_request.DescribeConfigsRequest(resources=[resource])
    (result,) = cluster.call_any(request, DescribeConfigsResponse).results
    return any("compact" in (config.value or "") for config in result.configs)


def check_live(options: ClusterOptions, replica: LiveReplica) -> ReplicaReport:
    """Read one replica of a broker."""
    report = ReplicaReport(
        replica.topic, replica.partition, f"broker {replica.broker}", replica.compacted
    )
    check = ReplicaCheck(report)
    cluster = options.connect()
    patience = Patience(min(cluster.patience_ms, TIMEOUT_MS))
    position = replica.start
    while position < replica.end:
        try:
            partition = _fetched(cluster, replica, position)
            code = code_of(partition.error_code)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                check.wrong("the replica has no such offset", position, replica.end - 1)
                return report
            records = partition.records or b""
            assert not isinstance(records, list)
            behind = _taken(check, records, position)
            if behind > position:
                position = behind
                patience.renew()
                continue
            patience.wait(code.name if code != ErrorCode.NONE else "it shows no record")
        except ChannelError as error:
            if not may_pass(error):
                raise
            _or_give_up(check, patience, error, position, replica.end)
            if report.findings and report.findings[-1].last == replica.end - 1:
                return report
        except ClusterUnreachableError as error:
            check.wrong(f"the replica does not show them: {error}", position, replica.end - 1)
            return report
    return report


def _or_give_up(
    check: ReplicaCheck, patience: Patience, error: ChannelError, position: int, end: int
) -> None:
    try:
        patience.wait(error)
    except ClusterUnreachableError as over:
        check.wrong(f"the broker does not answer: {over}", position, end - 1)


def _taken(check: ReplicaCheck, records: Any, position: int) -> int:
    """Take records; the offset where the next fetch begins."""
    behind = position
    try:
        for batch in iterate(records):
            if batch.header.next_offset > position:
                check.check_batch(batch)
                behind = max(behind, batch.header.next_offset)
    except CorruptBatchError as error:
        check.unreadable(error.why, -1)
        raise ClusterUnreachableError(f"what it sends is no run of batches: {error.why}") from error
    return behind


def _fetched(cluster: ClusterClient, replica: LiveReplica, position: int) -> Any:
    request = fetch_request.FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=[
            fetch_request.FetchTopic(
                topic=replica.topic,
                topic_id=replica.topic_id,
                partitions=[
                    fetch_request.FetchPartition(
                        partition=replica.partition,
                        current_leader_epoch=-1,
                        fetch_offset=position,
                        partition_max_bytes=FETCH_BYTES,
                    )
                ],
            )
        ],
    )
    answer = cluster.call(
        replica.endpoint,
        request,
        FetchResponse,
        timeout_ms=cluster.request_timeout_ms + WAIT_MS,
    )
    code = code_of(answer.error_code)
    answered = [partition for topic in answer.responses for partition in topic.partitions]
    if code != ErrorCode.NONE or not answered:
        raise ClusterUnreachableError(f"broker {replica.broker}: {code.name}")
    return answered[0]
