"""Topics that a pipeline needs: made where they are not there, with as many partitions as are needed."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.patience import Patience
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages import create_partitions_request, create_topics_request
from barnabas.wire.messages.create_partitions_response import CreatePartitionsResponse
from barnabas.wire.messages.create_topics_response import CreateTopicsResponse

ELSEWHERE = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
CREATE_MS = 30_000


def ensure_topic(
    cluster: ClusterClient, name: str, partitions: int, settings: Mapping[str, str] | None = None
) -> None:
    """Create the topic, or give it more partitions. Raises `KafkaError` if the cluster refuses that."""
    patience = Patience(cluster.patience_ms)
    while True:
        found = cluster.topics([name]).get(name)
        if found is not None and len(found.partitions) >= partitions:
            return
        code = (
            _create(cluster, name, partitions, settings or {})
            if found is None
            else _grow(cluster, name, partitions)
        )
        fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, *ELSEWHERE)
        if code not in fine:
            raise KafkaError(code, f"topic {name} cannot be made with {partitions} partitions")
        if code in ELSEWHERE:
            cluster.ask_another()
        patience.wait(f"topic {name}: {code.name}")


def _create(
    cluster: ClusterClient, name: str, partitions: int, settings: Mapping[str, str]
) -> ErrorCode:
    configs = [
        create_topics_request.CreatableTopicConfig(name=name, value=value)
        for name, value in settings.items()
    ]
    topic = create_topics_request.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=-1, configs=configs
    )
    request = create_topics_request.CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_MS)
    return code_of(cluster.call_any(request, CreateTopicsResponse).topics[0].error_code)


def _grow(cluster: ClusterClient, name: str, partitions: int) -> ErrorCode:
    topic = create_partitions_request.CreatePartitionsTopic(
        name=name, count=partitions, assignments=None
    )
    request = create_partitions_request.CreatePartitionsRequest(
        topics=[topic], timeout_ms=CREATE_MS
    )
    return code_of(cluster.call_any(request, CreatePartitionsResponse).results[0].error_code)
