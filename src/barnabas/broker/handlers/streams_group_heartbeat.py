"""StreamsGroupHeartbeat.

Behaviour: the only request that a member of a streams group sends to its group's coordinator (KIP-1071). It
joins with epoch 0, an id of its own and its topology, keeps its session with each heartbeat, and leaves with
epoch -1 or -2. The answer has its tasks where they changed, and statuses. Internal topics that are missing
are created for the client: it needs Create on them or on the cluster, and the status MISSING_INTERNAL_TOPICS
says what it lacks or what the controller had against it. UNSUPPORTED_VERSION where ``streams.version`` is 0.

Version notes: 1 asks for the tags that ``streams.rack.aware.assignment.tags`` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import caller_of, write_group
from barnabas.broker.roles import StreamsGroupRole
from barnabas.config.topic_names import check_topic_name
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.group.streams.configured_topology import InternalTopic, Status
from barnabas.group.streams.heartbeat import heartbeat
from barnabas.group.streams.joining import check_request
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.types import COORDINATOR_TOPICS
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from barnabas.wire.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from barnabas.wire.messages.streams_group_heartbeat_response import (
    StreamsGroupHeartbeatResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

FAILURES_SHOWN_MAX = 3
error_response = top_level_error(StreamsGroupHeartbeatResponse)

API = Api(
    ApiKey.STREAMS_GROUP_HEARTBEAT, StreamsGroupHeartbeatRequest, error_response, "group", "read"
)


def handle(
    request: StreamsGroupHeartbeatRequest, ctx: RequestContext, role: StreamsGroupRole
) -> Message | Parked | None:
    if not role.groups.serves_streams_groups:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    try:
        if request.topology is not None:
            check_names(request.topology)
        check_request(request)
    except KafkaError as error:
        return error_response(request, error.code, error.message)
    missing: dict[str, InternalTopic] = {}

    def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
        outcome, internal = heartbeat(machine.table, request, caller_of(ctx, role), at)
        missing.update(internal)
        return outcome

    def adapt(response: Message) -> Message:
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        if missing:
            _create(missing, response, ctx, role)
        return response

    return write_group(
        role,
        request.group_id,
        decide,
        lambda error: error_response(request, error.code, error.message),
        adapt,
    )


def names_of(topology: Topology) -> list[str]:
    """All topics of the topology, each once."""
    return list(
        dict.fromkeys(
            name
            for part in topology.subtopologies
            for name in (
                *part.source_topics,
                *part.repartition_sink_topics,
                *(topic.name for topic in part.repartition_source_topics),
                *(topic.name for topic in part.state_changelog_topics),
            )
        )
    )


def check_names(topology: Topology) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY where a topic is Kafka's own or has no valid name."""
    names = names_of(topology)
    own = [name for name in names if name in COORDINATOR_TOPICS]
    if own:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(own)} in a Kafka Streams topology is prohibited.",
        )
    invalid = [name for name in names if check_topic_name(name) is not None]
    if invalid:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(invalid)} are not valid topic names.",
        )


def _create(
    missing: Mapping[str, InternalTopic],
    response: StreamsGroupHeartbeatResponse,
    ctx: RequestContext,
    role: StreamsGroupRole,
) -> None:
    """Have the controller create the topics for the client, or say in the status why not."""
    denied = _denied(missing, ctx, role)
    if denied:
        _add(response, f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    role.auto_topics.create_given([_creatable(topic) for topic in missing.values()], ctx)
    failures = role.auto_topics.failures(missing)
    if failures:
        shown = list(failures.items())[:FAILURES_SHOWN_MAX]
        text = ", ".join(f"{name} ({why})" for name, why in shown)
        more = len(failures) - len(shown)
        _add(response, f"; Creation failed: {text}{f' and {more} more' if more else ''}.")


def _denied(names: Iterable[str], ctx: RequestContext, role: StreamsGroupRole) -> list[str]:
    """The topics that the client may not create."""
    authorizer = role.authorizer
    if authorizer is None or authorizer.may(
        ctx, Operation.CREATE, AclResourceType.CLUSTER, CLUSTER_NAME, audited=False
    ):
        return []
    return [
        name
        for name in sorted(names)
        if not authorizer.may(ctx, Operation.CREATE, AclResourceType.TOPIC, name)
    ]


def _add(response: StreamsGroupHeartbeatResponse, why: str) -> None:
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += why


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )
