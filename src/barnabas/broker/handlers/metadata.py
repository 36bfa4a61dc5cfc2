"""Metadata.

Behaviour: returns topics with partitions, leaders and replicas from the committed metadata, and the
live brokers on the client's listener. A topic that does not exist is created if client and broker
allow it; the client gets UNKNOWN_TOPIC_OR_PARTITION and asks again. If the leader of a requested
topic was lost a moment ago, the answer waits for its successor (`metadata_hold`).

Version notes: in 0 no topics means all of them, from 1 on null does; 12 asks by topic id, 8 to 10 may
ask what the cluster allows, 13 has an error of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.broker.cluster_view import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    ClusterView,
)
from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.controller_client.metadata_hold import Led
from barnabas.broker.cooperative_jobs import CONTINUES, StepResult
from barnabas.config.topic_names import check_topic_name
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import Topic
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.metadata_request import MetadataRequest
from barnabas.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.request import Api, Parked, RequestContext, Working

if TYPE_CHECKING:
    from barnabas.broker.roles import MetadataRole

LISTENER_NOT_FOUND_SINCE = 6
IDS_SINCE = 12


def error_response(request: MetadataRequest, code: int, message: str) -> MetadataResponse:
    return MetadataResponse(
        error_code=code,
        cluster_id=None,
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
    )


API = Api(ApiKey.METADATA, MetadataRequest, error_response, "topic", "describe")


def handle(
    request: MetadataRequest, ctx: RequestContext, broker: MetadataRole
) -> MetadataResponse | Parked | None:
    if 10 <= ctx.api_version < IDS_SINCE:
        _check_names(request)
    topics = list(_known_topics(request, ctx, broker.image))
    many = sum(map(len, topics)) > broker.ports.bounds.handlers.described_inline_max

    def answer(parked: Working | None) -> MetadataResponse | Parked | None:
        steps = _describe(request, ctx, broker, parked)
        return broker.slices.answer(steps, at_once=not many, parked=parked)

    held = broker.metadata_hold.park(map(Led, topics), ctx.connected_at_ms, answer)
    if held is not None:
        return held
    return answer(Working(holds=False) if many else None)


def _check_names(request: MetadataRequest) -> None:
    """Raises KafkaError if a topic has an id or no name: these versions have the fields, but they
    mean nothing yet."""
    for asked in request.topics or ():
        if asked.name is None or asked.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"before version {IDS_SINCE} topics have names"
            )


def _known_topics(
    request: MetadataRequest, ctx: RequestContext, image: MetadataImage
) -> Iterator[Topic]:
    """The requested topics that exist."""
    if request.topics is None or (ctx.api_version == 0 and not request.topics):
        yield from image.topics_by_id.values()
        return
    for asked in request.topics:
        if asked.name is None or asked.topic_id != ZERO_UUID:  # the id decides, as in Kafka
            known = image.topics_by_id.get(Uuid(asked.topic_id))
        else:
            known = image.topics_by_name.get(asked.name)
        if known is not None:
            yield known


def _describe(
    request: MetadataRequest, ctx: RequestContext, broker: MetadataRole, parked: Working | None
) -> Iterator[MetadataResponse | StepResult | None]:
    """Describe some partitions with each step; a partition takes some 5 µs. Each topic is described
    as it is in its turn. There is no answer if the connection of `parked` has ended."""
    description = _Description(request, ctx, broker)
    for _ in description.steps():
        if parked is not None and parked.done:
            yield None
            return
        yield CONTINUES
    yield description.response()


class _Description:
    """The described topics of one answer."""

    def __init__(self, request: MetadataRequest, ctx: RequestContext, broker: MetadataRole) -> None:
        self._request = request
        self._ctx = ctx
        self._broker = broker
        self._view = ClusterView(broker.image, ctx.listener)
        asked = request.include_topic_authorized_operations
        self._operations = TOPIC_OPERATIONS if asked else NOT_ASKED
        self._topics: list[MetadataResponseTopic] = []

    def steps(self) -> Iterator[None]:
        """Describe the topics, some partitions with each step."""
        request, image = self._request, self._broker.image
        if request.topics is None or (self._ctx.api_version == 0 and not request.topics):
            for name in sorted(image.topics_by_name):
                known = image.topics_by_name.get(name)
                if (
                    known is not None and name not in image.incomplete_topics
                ):  # it was not deleted meanwhile
                    yield from self._topic(known)
        else:
            yield from self._asked_topics()

    def response(self) -> MetadataResponse:
        """The response, after the last step."""
        broker, view = self._broker, self._view
        asked = self._request.include_cluster_authorized_operations
        return MetadataResponse(
            brokers=self._brokers(),
            cluster_id=broker.cluster_id,
            controller_id=broker.controller_for_clients(view),
            topics=self._topics,
            cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        )

    def _brokers(self) -> list[MetadataResponseBroker]:
        """The live brokers; where none is, the one that answers: after an empty list librdkafka 2.16 ends all
        its connections and makes no other."""
        broker = self._broker
        live = self._view.live_brokers(broker.metadata_hold.shown())
        at = None if live else broker.listeners.endpoints.get(self._ctx.listener)
        if at is not None:
            return [MetadataResponseBroker(node_id=broker.node_id, host=at.host, port=at.port)]
        return [
            MetadataResponseBroker(node_id=b.id, host=b.host, port=b.port, rack=b.rack)
            for b in live
        ]

    def _asked_topics(self) -> Iterator[None]:
        request, broker, topics = self._request, self._broker, self._topics
        image = broker.image
        to_create: dict[str, None] = {}
        for asked in request.topics or ():
            if asked.name is None or asked.topic_id != ZERO_UUID:
                known = image.topics_by_id.get(Uuid(asked.topic_id))
                if known is None or known.name in image.incomplete_topics:
                    topics.append(_unknown_id(asked.topic_id))
                    continue
            else:
                known = image.topics_by_name.get(asked.name)
            if known is not None and known.name not in image.incomplete_topics:
                yield from self._topic(known)
                continue
            name = asked.name or ""
            if check_topic_name(name) is not None:
                topics.append(_missing(name, ErrorCode.INVALID_TOPIC_EXCEPTION))
                continue
            topics.append(_missing(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            may_create = request.allow_auto_topic_creation and known is None
            if may_create and broker.config.broker.auto_create_topics:
                to_create[name] = None
        if to_create:
            broker.auto_topics.create(list(to_create), self._ctx)

    def _topic(self, topic: Topic) -> Iterator[None]:
        new = self._ctx.api_version >= LISTENER_NOT_FOUND_SINCE
        view, per_slice = self._view, self._broker.ports.bounds.handlers.described_per_slice
        partitions: list[MetadataResponsePartition] = []
        for index in range(len(topic)):
            if not topic.has(index):
                continue
            found = view.partition(topic, index, unavailable_listeners=new)
            partitions.append(
                MetadataResponsePartition(
                    error_code=found.code,
                    partition_index=index,
                    leader_id=found.leader,
                    leader_epoch=found.leader_epoch,
                    replica_nodes=found.replicas,
                    isr_nodes=found.isr,
                    offline_replicas=found.offline,
                )
            )
            if not index % per_slice:
                yield
        self._topics.append(
            MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.name in INTERNAL_TOPICS,
                partitions=partitions,
                topic_authorized_operations=self._operations,
            )
        )


def _unknown_id(topic_id: Uuid) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
    )


def _missing(name: str, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=ZERO_UUID, is_internal=name in INTERNAL_TOPICS
    )
