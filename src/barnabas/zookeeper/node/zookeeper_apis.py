"""The APIs on a broker's listener where ZooKeeper coordinates the cluster.

Any broker may be the controller, so brokers' listeners serve the controller's APIs, as in Kafka 3.9. A
broker that is not the controller forwards clients' requests to it (KIP-590), so that a client that missed
an election does not have to find the controller first. It answers other brokers' requests to the controller
with NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker import handlers as broker_handlers
from barnabas.broker.broker import Broker
from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.broker.controller_client.forwarding import forward, send_as_broker, timeout_of
from barnabas.broker.handlers import describe_delegation_token
from barnabas.controller.handlers import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    envelope,
    incremental_alter_configs,
    list_partition_reassignments,
)
from barnabas.metadata.image.image import BROKER, TOPIC
from barnabas.raft.handlers import describe_quorum
from barnabas.security.authorization.access_rules import guard, guarded
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.security.authorization.broker_access import BROKER_RULES
from barnabas.security.authorization.controller_access import ACTION, CONTROLLER_RULES
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiEntry, ApiTable
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics_request import CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from barnabas.wire.messages.describe_cluster_response import (
    ControllerMetric,
    DescribeClusterResponse,
)
from barnabas.wire.request import HandlerModule, Parked, RequestContext, then
from barnabas.wire.schema import Message
from barnabas.zookeeper.broker.acl_requests import AclRequests
from barnabas.zookeeper.broker.control_requests import ControlRequests
from barnabas.zookeeper.broker.own_configs import OwnConfigs
from barnabas.zookeeper.broker.token_requests import TokenRequests
from barnabas.zookeeper.controller import controlled_shutdown
from barnabas.zookeeper.controller.zookeeper_controller import ZookeeperController
from barnabas.zookeeper.handlers import leader_and_isr, stop_replica, update_metadata
from barnabas.zookeeper.layout.config_znodes import entity_of
from barnabas.zookeeper.node.ready_gate import ReadyGate
from barnabas.zookeeper.states.controller_metrics import count_all
from barnabas.zookeeper.states.describe_cluster_fields import add_fields, asks_for_fields

OwnRequests = AclRequests | TokenRequests
"""Handlers of the requests whose results a broker itself writes to znodes, not the controller."""
ReadAgain = Callable[[Sequence[str], Callable[[], None]], None]
"""Reads the configurations of entities from their znodes, then calls back."""
FORWARDED = cast(
    "tuple[HandlerModule, ...]",
    (
        create_topics,
        delete_topics,
        create_partitions,
        elect_leaders,
        alter_partition_reassignments,
        list_partition_reassignments,
        incremental_alter_configs,
        alter_configs,
        alter_client_quotas,
        alter_user_scram_credentials,
    ),
)
"""APIs that the controller answers; other brokers forward them to it."""
ANSWERED_BY_ANY_BROKER = (
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS,
)
"""Those of `FORWARDED` that every broker of Kafka 3.9 answers itself. Clients send them to any broker."""
BROKERS_REQUESTS = cast(
    "tuple[HandlerModule, ...]", (envelope, alter_partition, allocate_producer_ids)
)
"""APIs by which brokers ask the controller."""
ORDERS = cast("tuple[HandlerModule, ...]", (leader_and_isr, update_metadata, stop_replica))
"""APIs by which the controller gives orders to brokers."""
RULES = {
    **BROKER_RULES,
    **{
        key: CONTROLLER_RULES[key]
        for key in (
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.ENVELOPE,
            ApiKey.ALTER_PARTITION,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.DESCRIBE_QUORUM,
        )
    },
    **{module.API.key: ACTION for module in ORDERS},
    controlled_shutdown.API.key: ACTION,
}
"""The authorizer's rules for the APIs that a broker answers itself."""


def add_to(
    table: ApiTable,
    broker: Broker,
    controller: ZookeeperController,
    orders: ControlRequests,
    own: Sequence[OwnRequests],
    own_configs: OwnConfigs,
    gate: ReadyGate,
    read_again: ReadAgain,
) -> None:
    """Add to `table` the APIs of a broker, those of the controller, and the controller's orders. Requests
    wait at the `gate`, except for the orders and for what only the controller answers (`BROKERS_REQUESTS`,
    ControlledShutdown)."""
    decider, authorizer = controller.decider, broker.authorizer
    for module in broker_handlers.MODULES:
        names_steps = module.API.key is ApiKey.DESCRIBE_CLUSTER
        table.add(gate.before(_telling(module, controller) if names_steps else module), broker)
    table.add(gate.before(cast("HandlerModule", describe_delegation_token)), broker)
    for requests in own:
        for module in requests.modules():
            table.add(gate.before(module), requests)
    for module in FORWARDED:
        handler = _judged(_restricted(module, controller), authorizer)
        answered = _here_or_there(handler, broker, controller, own_configs)
        if module.API.key in (alter_configs.API.key, incremental_alter_configs.API.key):
            answered = _known_here(answered, read_again)
        table.add(gate.before(answered), decider)
        if decider.forwarded_apis.get(module.API.key) is None:
            decider.forwarded_apis.add(handler, decider)
    for module in BROKERS_REQUESTS:
        table.add(_with_readable_ids(module, controller), decider)
    table.add(cast("HandlerModule", controlled_shutdown), controller)
    for module in ORDERS:
        table.add(module, orders)


def add_forwarding(
    table: ApiTable,
    broker: Broker,
    own: Sequence[OwnRequests],
    gate: ReadyGate,
    is_kraft: Callable[[], bool],
    to_quorum: ControllerChannel,
) -> None:
    """Forward requests while the cluster migrates. DescribeQuorum goes to the quorum's leader. When a KRaft
    controller holds `/controller`, requests of `own` (ACLs and delegation tokens) go to it; it writes their
    results to the znodes, which every broker reads."""

    def describe(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        timeout_ms = timeout_of(request, broker.config.broker.request_timeout_ms)
        return forward(to_quorum, describe_quorum.API, request, ctx, timeout_ms)

    table.add_handler(describe_quorum.API, describe, broker)
    for requests in own:
        for module in requests.modules():
            handed_on = gate.before(_kraft_or_here(module, broker, is_kraft))
            table.replace(module.API.key, handed_on.handle)


def _kraft_or_here(
    module: HandlerModule, broker: Broker, is_kraft: Callable[[], bool]
) -> HandlerModule:
    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        if not is_kraft():
            return module.handle(request, ctx, role)
        timeout_ms = timeout_of(request, broker.config.broker.request_timeout_ms)
        return forward(broker.controller, module.API, request, ctx, timeout_ms)

    return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))


def guard_with(table: ApiTable, authorizer: Authorizer | None) -> None:
    """Authorize the requests that a broker answers itself. The controller authorizes those that it
    answers."""
    guard(table, RULES, authorizer, judged_elsewhere=(module.API.key for module in FORWARDED))


def _judged(module: HandlerModule, authorizer: Authorizer | None) -> HandlerModule:
    """`module` behind this broker's authorizer: in ZooKeeper mode, a controller is also a broker."""
    if authorizer is None:
        return module
    entry = ApiEntry(module.API, module.handle, None, 0, 0, 0)
    handle = guarded(entry, CONTROLLER_RULES[module.API.key], authorizer)
    return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))


def _taken(topic: str, controller: ZookeeperController) -> str:
    """Why a topic that the controller's image does not have exists all the same; empty where it does not."""
    if topic in controller.deletions:
        return f"Topic '{topic}' is marked for deletion."
    if topic in controller.unreadable:
        return f"Topic '{topic}' exists, but {controller.unreadable.why(topic)}"
    return ""


def _with_readable_ids(module: HandlerModule, controller: ZookeeperController) -> HandlerModule:
    """`module`; AllocateProducerIds is refused while the block that was given out last cannot be read."""
    if module.API.key is not ApiKey.ALLOCATE_PRODUCER_IDS:
        return module

    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        error = controller.unreadable.producer_ids
        if error is not None and controller.decider.may_decide:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return module.handle(request, ctx, role)

    return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))


def _create_topics(
    request: CreateTopicsRequest, ctx: RequestContext, controller: ZookeeperController
) -> Message | Parked | None:
    """CreateTopics; refuses topics that are being deleted, as they exist until their last replica is
    deleted, and those with znodes that cannot be read."""
    going = [topic for topic in request.topics if _taken(topic.name, controller)]
    if not going:
        return create_topics.handle(request, ctx, controller.decider)
    request.topics = [topic for topic in request.topics if topic not in going]
    refused = [
        CreatableTopicResult(
            name=topic.name,
            error_code=ErrorCode.TOPIC_ALREADY_EXISTS,
            error_message=_taken(topic.name, controller),
            num_partitions=-1,
            replication_factor=-1,
        )
        for topic in going
    ]

    def with_refused(response: Message | None) -> Message | None:
        assert isinstance(response, CreateTopicsResponse)
        response.topics = [*response.topics, *refused]
        return response

    return then(create_topics.handle(request, ctx, controller.decider), with_refused)


def _here_or_there(
    module: HandlerModule,
    broker: Broker,
    controller: ZookeeperController,
    own_configs: OwnConfigs,
) -> HandlerModule:
    def not_controller(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        why = "the controller, of Apache Kafka, takes no envelopes"
        return module.API.error_response(request, ErrorCode.NOT_CONTROLLER, why)

    def as_broker(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        if own_configs.concerns(module.API, request):
            return own_configs.handle(module.API, request)
        timeout_ms = timeout_of(request, broker.config.broker.request_timeout_ms)
        return send_as_broker(broker.controller, module.API, request, timeout_ms)

    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        if controller.decider.may_decide:
            return module.handle(request, ctx, role)
        timeout_ms = timeout_of(request, broker.config.broker.request_timeout_ms)
        without_envelopes = partial(instead.handle, request, ctx, role)
        return forward(broker.controller, module.API, request, ctx, timeout_ms, without_envelopes)

    answer = as_broker if module.API.key in ANSWERED_BY_ANY_BROKER else not_controller
    instead = cast("HandlerModule", SimpleNamespace(API=module.API, handle=answer))
    if answer is as_broker:
        instead = _judged(instead, broker.authorizer)
    return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))


def _known_here(module: HandlerModule, read_again: ReadAgain) -> HandlerModule:
    """`module`, whose answers wait until this broker has read the new configuration from the znodes: its
    client may next ask this broker to describe it."""

    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        found = [entity_of(one.resource_type, one.resource_name) for one in request.resources]
        entities = [entity for entity in found if entity is not None]
        answer = module.handle(request, ctx, role)
        if request.validate_only or not entities:
            return answer

        def read(response: Message | None) -> Parked:
            parked = Parked()

            def done() -> None:
                parked.complete(response)

            read_again(entities, done)
            return parked

        return then(answer, read)

    return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))


def _telling(module: HandlerModule, controller: ZookeeperController) -> HandlerModule:
    """`module` (DescribeCluster), whose answer also has, on request, this broker's steps as the controller,
    and what it counts while it is the controller."""

    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        def more(response: Message | None) -> Message | None:
            if isinstance(response, DescribeClusterResponse):
                decider = controller.decider
                add_fields(
                    request, response, controller.steps.book, decider.refusals,
                    is_controller=decider.may_decide,
                )  # fmt: skip
            return response

        answer = module.handle(request, ctx, role)
        if asks_for_fields(request):
            answer = then(answer, more)
        if request.include_metrics and controller.decider.may_decide:
            answer = then(answer, partial(_with_controllers_metrics, controller))
        return answer

    return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))


def _with_controllers_metrics(
    controller: ZookeeperController, response: Message | None
) -> Message | Parked | None:
    """The answer with what this broker counts as the controller, before what it counts as a broker."""
    if not isinstance(response, DescribeClusterResponse):
        return response
    parked = Parked()

    def counted(metrics: dict[str, int]) -> None:
        own = [ControllerMetric(name=name, value=value) for name, value in metrics.items()]
        response.metrics = [*own, *response.metrics]
        parked.complete(response)

    count_all(controller.decider, controller.steps.book, len(controller.unreadable), counted)
    return parked


def _restricted(module: HandlerModule, controller: ZookeeperController) -> HandlerModule:
    if module.API.key is create_topics.API.key:

        def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
            return _create_topics(request, ctx, controller)

        return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))
    if module.API.key in (alter_configs.API.key, incremental_alter_configs.API.key):
        return _with_known_resources(module)
    return module


def _with_known_resources(module: HandlerModule) -> HandlerModule:
    """`module` for topics and brokers only: through these APIs, Kafka 3.9 keeps no other configurations in
    ZooKeeper. Raises INVALID_REQUEST for others."""

    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        for resource in request.resources:
            if resource.resource_type not in (TOPIC, BROKER):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"resources of type {resource.resource_type} are not kept where ZooKeeper"
                    " coordinates the cluster",
                )
        return module.handle(request, ctx, role)

    return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))
