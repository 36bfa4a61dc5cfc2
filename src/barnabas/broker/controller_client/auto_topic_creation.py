"""Creates topics because a client asked for them.

A Metadata request for a topic that does not exist creates it (``auto.create.topics.enable``). The
internal topics of coordinators are created when the first client looks for its coordinator. The
client gets a retriable error. The broker sends the creation to the controller once, however many
clients ask. The number of partitions and replicas of a client's topic comes from this broker's
properties; the controller's apply if there are none.

Behaviour: Kafka's DefaultAutoTopicCreationManager.

Source: Kafka's ``AutoTopicCreationManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.broker.controller_client.controller_channel import (
    AS_BROKER,
    FORWARD,
    ControllerChannel,
)
from barnabas.broker.controller_client.forwarding import CLOSES_MAX
from barnabas.config.node import NodeConfig
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.ports import Ports
from barnabas.types import (
    COORDINATOR_TOPICS,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.envelope import unwrap, wrap
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.create_topics_response import CreateTopicsResponse
from barnabas.wire.messages.envelope_response import EnvelopeResponse
from barnabas.wire.request import RequestContext
from barnabas.wire.schema import Message

INTERNAL_TOPICS = frozenset(COORDINATOR_TOPICS)
MIN_ISR = "min.insync.replicas"
RETRY_AFTER_MS = 1000.0
"""Delay before the creation of a topic is tried again after a failure."""
FAILURE_LASTS_MS = 10_000.0
"""Time for which clients receive the reason why a topic was not created."""
FAILURES_MAX = 1_000


class AutoTopicCreation:
    """The creations of topics that one broker has under way."""

    def __init__(
        self,
        ports: Ports,
        controller: ControllerChannel,
        config: NodeConfig,
        image: MetadataImage,
        takes_envelopes: bool = True,
    ) -> None:
        """`takes_envelopes`: whether every controller of the cluster takes envelopes."""
        self._ports = ports
        self._controller = controller
        self._config = config
        self._image = image
        self._takes_envelopes = takes_envelopes
        self._creating: dict[str, float] = {}
        """The time (ms) before which each topic's creation is not sent again."""
        self._failures: dict[str, tuple[float, str]] = {}
        """The reason why each topic was not created, and the time (ms) until which clients receive it."""

    def create_own(self, names: list[str]) -> None:
        """Create topics of the broker's own coordinators, as `create` does. The request has no
        envelope, so that the controller authorizes the broker and no client."""
        wanted, timeout_ms = self._not_under_way(names)
        if wanted:
            self._send_own([self._topic(name) for name in wanted], timeout_ms)

    def _send_own(self, topics: list[CreatableTopic], timeout_ms: int) -> None:
        wanted = [topic.name for topic in topics]

        def on_answer(response: Message | KafkaError) -> None:
            self._on_created(wanted, response)

        purpose = FORWARD if self._takes_envelopes else AS_BROKER
        request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)
        self._controller.send(request, on_answer, timeout_ms=timeout_ms, purpose=purpose)

    def create_one(
        self, topic: CreatableTopic, on_done: Callable[[KafkaError | None], None]
    ) -> None:
        """Have the controller create `topic` in the broker's own name. `on_done` gets the error; a topic
        that exists by then is none."""
        timeout_ms = self._config.broker.request_timeout_ms

        def on_answer(response: Message | KafkaError) -> None:
            if isinstance(response, KafkaError):
                on_done(response)
                return
            assert isinstance(response, CreateTopicsResponse)
            [result] = response.topics
            refused = result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            on_done(
                KafkaError(code_of(result.error_code), result.error_message or "")
                if refused
                else None
            )

        self._controller.send(
            CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms),
            on_answer,
            timeout_ms=timeout_ms,
            purpose=FORWARD if self._takes_envelopes else AS_BROKER,
        )

    def _not_under_way(self, names: list[str]) -> tuple[list[str], int]:
        now_ms = self._ports.clock.now_ms()
        timeout_ms = self._config.broker.request_timeout_ms
        self._creating = {n: until for n, until in self._creating.items() if until > now_ms}
        wanted = [name for name in names if name not in self._creating]
        for name in wanted:
            self._creating[name] = now_ms + timeout_ms
        return wanted, timeout_ms

    def create(self, names: list[str], ctx: RequestContext) -> None:
        """Ask the controller to create `names` for the client of `ctx`, but for those under way."""
        self.create_given([self._topic(name) for name in names], ctx)

    def create_given(self, topics: list[CreatableTopic], ctx: RequestContext) -> None:
        """Ask the controller to create `topics` for the client of `ctx`, but for those under way."""
        wanted, timeout_ms = self._not_under_way([topic.name for topic in topics])
        topics = [topic for topic in topics if topic.name in wanted]
        if not topics:
            return
        schema = API_SCHEMAS[ApiKey.CREATE_TOPICS]
        inner = RequestContext(
            api_key=ApiKey.CREATE_TOPICS,
            api_version=schema.max_stable_version,
            client_id=ctx.client_id,
            listener=ctx.listener,
            principal=ctx.principal,
            peer=ctx.peer,
        )

        def on_answer(response: EnvelopeResponse | KafkaError) -> None:
            answer: Message | KafkaError
            if self._is_as_broker(response):
                self._send_own(topics, timeout_ms)
                return
            if isinstance(response, KafkaError):
                answer = response
            else:
                try:
                    answer = unwrap(response, inner)
                except (KafkaError, ValueError) as error:
                    answer = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            self._on_created(wanted, answer)

        request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)
        self._controller.send(
            wrap(request, inner),
            on_answer,
            timeout_ms=timeout_ms,
            purpose=FORWARD,
            closes_max=None if self._takes_envelopes else CLOSES_MAX,
        )

    def _is_as_broker(self, response: object) -> bool:
        """Whether a controller of Kafka 3.9 takes no envelopes, and no authorizer has to judge the client."""
        return (
            isinstance(response, KafkaError)
            and response.code is ErrorCode.UNSUPPORTED_VERSION
            and not self._config.properties.get("authorizer.class.name")
        )

    def _topic(self, name: str) -> CreatableTopic:
        if name == OFFSETS_TOPIC:
            offsets = self._config.offsets
            own: dict[str, object] = {"segment.bytes": offsets.topic_segment_bytes}
            if offsets.topic_min_isr:
                own[MIN_ISR] = offsets.topic_min_isr
            return _internal(name, offsets.topic_partitions, offsets.topic_replication_factor, own)
        if name == TRANSACTIONS_TOPIC:
            transactions = self._config.transactions
            return _internal(
                name, transactions.topic_partitions, transactions.topic_replication_factor,
                {"segment.bytes": transactions.topic_segment_bytes,
                 MIN_ISR: transactions.topic_min_isr, "compression.type": "uncompressed",
                 "unclean.leader.election.enable": "false"},
            )  # fmt: skip
        if name == SHARE_STATE_TOPIC:
            share = self._config.share_coordinator
            return _internal(
                name, share.topic_partitions, share.topic_replication_factor,
                {"segment.bytes": share.topic_segment_bytes, MIN_ISR: share.topic_min_isr,
                 "cleanup.policy": "delete", "retention.ms": -1},
            )  # fmt: skip
        # The controller's properties apply where this broker has none of its own.
        given, broker = self._config.properties, self._config.broker
        return CreatableTopic(
            name=name,
            num_partitions=broker.num_partitions if "num.partitions" in given else -1,
            replication_factor=(
                broker.default_replication_factor if "default.replication.factor" in given else -1
            ),
        )

    def _on_created(self, names: list[str], answer: Message | KafkaError) -> None:
        retry_ms = self._ports.clock.now_ms() + RETRY_AFTER_MS
        for name in names:
            if name in self._creating:
                self._creating[name] = retry_ms
        if isinstance(answer, KafkaError):
            self._ports.log("warning", "topic.auto_create_failed", topics=names, why=str(answer))
            for name in names:
                self._note_failure(name, str(answer))
            return
        assert isinstance(answer, CreateTopicsResponse)
        for topic in answer.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                code = code_of(topic.error_code).name
                self._note_failure(topic.name, topic.error_message or code)
                self._ports.log(
                    "warning",
                    "topic.auto_create_failed",
                    topics=[topic.name],
                    why=f"{code_of(topic.error_code).name}: {topic.error_message}",
                )

    def _note_failure(self, name: str, why: str) -> None:
        now_ms = self._ports.clock.now_ms()
        known = {n: found for n, found in self._failures.items() if found[0] > now_ms}
        if len(known) < FAILURES_MAX:
            known[name] = (now_ms + FAILURE_LASTS_MS, why)
        self._failures = known

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Why those of `names` that were asked for a short while ago were not created."""
        now_ms = self._ports.clock.now_ms()
        found = {name: self._failures[name] for name in names if name in self._failures}
        return {name: why for name, (until_ms, why) in found.items() if until_ms > now_ms}

    def on_metadata(self, changes: ImageChanges) -> None:
        if self._creating and (changes.topics_created or changes.everything):
            known = self._image.topics_by_name
            self._creating = {n: until for n, until in self._creating.items() if n not in known}


def _internal(
    name: str, partitions: int, replication: int, settings: dict[str, object]
) -> CreatableTopic:
    """A coordinator's topic: compacted, unless `settings` say otherwise."""
    values = {"cleanup.policy": "compact", "compression.type": "producer", **settings}
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        configs=[CreatableTopicConfig(name=key, value=str(value)) for key, value in values.items()],
    )
