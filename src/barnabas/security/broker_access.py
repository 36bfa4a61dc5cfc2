"""What the APIs of a broker's listeners ask of the authorizer.

APIs that are forwarded to the active controller are judged there, for the principal of the Envelope;
they have no rule here. Source: Kafka's KafkaApis and AuthHelper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.security.access_rules import (
    NOTHING,
    Answer,
    Question,
    Rule,
    adding,
    amended,
    both,
    copy_with,
    denied,
    each,
    split,
    title,
    whole,
)
from barnabas.security.acls import CLUSTER_NAME, Operation, ResourceType
from barnabas.security.config_access import ALTER_LOGGERS, DESCRIBE_CONFIGS
from barnabas.types import ZERO_UUID
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import offset_fetch_response as fetched
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.messages.metadata_response import MetadataResponseTopic
from barnabas.wire.schema import Message

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
NOT_ASKED = -2147483648
_ATTRIBUTES_AT = 22
_TRANSACTIONAL = 0x10


def _asks(
    operation: Operation, kind: ResourceType, answer: str | None = None
) -> tuple[str, str, str]:
    return title(operation), title(kind), answer or denied(kind).code.name


# -- data ------------------------------------------------------------------------------------------


def _check_produce(question: Question) -> Answer:
    request = question.request
    for topic in request.topic_data:
        for part in topic.partition_data:
            records = part.records
            if records and len(records) > _ATTRIBUTES_AT and records[_ATTRIBUTES_AT] & _TRANSACTIONAL:
                name = request.transactional_id
                if name is None:
                    raise denied(TRANSACTIONAL_ID)
                question.require(Operation.WRITE, TRANSACTIONAL_ID, name)
                break

    def name_of(topic: Any) -> str | None:
        return question.topic_name(topic, topic.name)

    if request.acks:
        return split(question, Operation.WRITE, TOPIC, "topic_data", name_of, "responses")
    for topic in request.topic_data:
        name = name_of(topic)
        if name is not None:  # there is no answer: the connection ends
            question.require(Operation.WRITE, TOPIC, name)
    return None


def _check_fetch(question: Question) -> Answer:
    """Consumers are judged partition by partition, where the session is looked at (`FetchService`)."""
    request = question.request
    if max(request.replica_id, request.replica_state.replica_id) < 0:
        return None
    if question.may_cluster(Operation.CLUSTER_ACTION):
        return None
    refused = question.refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(refused, FetchResponse)
    refused.error_code = ErrorCode.NONE
    return refused


def _check_init_producer_id(question: Question) -> None:
    request = question.request
    if request.transactional_id is not None:
        question.require(Operation.WRITE, TRANSACTIONAL_ID, request.transactional_id)
        if getattr(request, "enable2_pc", False):
            question.require(
                Operation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, request.transactional_id
            )
        return
    if question.may_cluster(Operation.IDEMPOTENT_WRITE, audited=False):
        return
    if not question.authorizer.may_on_any(question.ctx, Operation.WRITE, TOPIC):
        question.require(Operation.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)


# -- topics and the cluster --------------------------------------------------------------------------


def _check_metadata(question: Question) -> Answer:
    """Topics that may not be described are named in no answer but to who named them; that a topic does not
    exist is told to those only who may describe it."""
    request, version = question.request, question.ctx.api_version
    if request.topics is None or (version == 0 and not request.topics):
        return lambda response: _visible(question, response)
    allowed, refused = [], []
    for asked in request.topics:
        name = question.topic_name(asked, asked.name)
        if name is not None and not question.may(Operation.DESCRIBE, TOPIC, name):
            # Ids are no secret, names are.
            by_id = not asked.name
            refused.append(_hidden(None if by_id else name, asked.topic_id if by_id else ZERO_UUID))
        elif name is not None and not _may_exist(question, name):
            refused.append(_hidden(name, ZERO_UUID))
        else:
            allowed.append(asked)
    if not refused:
        return lambda response: _visible(question, response)
    # No topics at all: null would mean all of them, as an empty list does in version 0.
    if not allowed and version == 0:
        asked = copy_with(request.topics[0], name="")
        request.topics = [asked]
        return lambda response: _only(response, refused)
    request.topics = allowed
    add = adding("topics", refused)
    return lambda response: add(_visible(question, response))


def _may_exist(question: Question, name: str) -> bool:
    """Whether a topic exists, or need not be created, or may be."""
    if not question.request.allow_auto_topic_creation or name in question.image.topics_by_name:
        return True
    return question.may_cluster(Operation.CREATE, audited=False) or question.may(
        Operation.CREATE, TOPIC, name
    )


def _hidden(name: str | None, topic_id: Any) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id
    )


def _only(response: Any, topics: list[MetadataResponseTopic]) -> Message:
    response.topics = topics
    assert isinstance(response, Message)
    return response


def _visible(question: Question, response: Any) -> Message:
    """All topics that may be described, and what may be done with them and the cluster."""
    topics = []
    for topic in response.topics:
        if topic.name is not None and not topic.error_code:
            if not question.may(Operation.DESCRIBE, TOPIC, topic.name, audited=False):
                continue
            if getattr(topic, "topic_authorized_operations", NOT_ASKED) != NOT_ASKED:
                topic.topic_authorized_operations = question.authorizer.operations(
                    question.ctx, TOPIC, topic.name
                )
        topics.append(topic)
    response.topics = topics
    return _cluster_operations(question, response)


def _cluster_operations(question: Question, response: Any) -> Message:
    if getattr(response, "cluster_authorized_operations", NOT_ASKED) != NOT_ASKED:
        response.cluster_authorized_operations = (
            question.authorizer.operations(question.ctx, CLUSTER, CLUSTER_NAME)
            if question.may_cluster(Operation.DESCRIBE, audited=False)
            else 0
        )
    assert isinstance(response, Message)
    return response


def _check_describe_cluster(question: Question) -> Answer:
    return lambda response: _cluster_operations(question, response)


def _check_describe_topic_partitions(question: Question) -> Answer:
    request = question.request
    answer: Answer = None
    if request.topics:
        answer = split(
            question, Operation.DESCRIBE, TOPIC, "topics", lambda topic: topic.name, "topics"
        )
        if isinstance(answer, Message):
            return answer
    first = [] if answer is None else [answer]
    return lambda response: amended(
        response, [lambda r: _visible(question, r), *first]
    )


# -- groups ----------------------------------------------------------------------------------------


def _check_find_coordinator(question: Question) -> Answer:
    request = question.request
    kinds = {0: GROUP, 1: TRANSACTIONAL_ID}
    kind = kinds.get(request.key_type)
    if kind is None:
        if request.key_type == 2:
            question.require(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return None
    if not request.coordinator_keys:
        if question.ctx.api_version < 4:
            question.require(Operation.DESCRIBE, kind, request.key)
        return None
    return split(
        question, Operation.DESCRIBE, kind, "coordinator_keys", lambda key: str(key), "coordinators"
    )


def _check_offset_fetch(question: Question) -> Answer:
    request = question.request
    if question.ctx.api_version < 8:
        question.require(Operation.DESCRIBE, GROUP, request.group_id)
        if request.topics is None:
            return lambda response: _describable_offsets(question, response)
        return split(
            question, Operation.DESCRIBE, TOPIC, "topics", lambda topic: topic.name, "topics"
        )
    amends: list[Callable[[Message], Message]] = []
    allowed, refused = [], []
    for group in request.groups:
        if not question.may(Operation.DESCRIBE, GROUP, group.group_id):
            refused.append(
                fetched.OffsetFetchResponseGroup(
                    group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
            continue
        allowed.append(group)
        if group.topics is None:
            amends.append(_describable_group(question, group.group_id))
            continue
        topics, hidden = [], []
        for topic in group.topics:
            name = question.topic_name(topic, topic.name)
            may = name is None or question.may(Operation.DESCRIBE, TOPIC, name)
            (topics if may else hidden).append(topic)
        if hidden:
            group.topics = topics
            amends.append(_hidden_offsets(group.group_id, hidden))
    if refused:
        request.groups = allowed
        if not allowed:
            return fetched.OffsetFetchResponse(groups=refused)
        amends.append(adding("groups", refused))
    return (lambda response: amended(response, amends)) if amends else None


def _describable_offsets(question: Question, container: Any) -> Any:
    container.topics = [
        topic
        for topic in container.topics
        if (name := question.topic_name(topic, topic.name)) is not None
        and question.may(Operation.DESCRIBE, TOPIC, name, audited=False)
    ]
    return container


def _describable_group(question: Question, group_id: str) -> Callable[[Message], Message]:
    def amend(response: Any) -> Message:
        for group in response.groups:
            if group.group_id == group_id:
                _describable_offsets(question, group)
        assert isinstance(response, Message)
        return response

    return amend


def _hidden_offsets(group_id: str, topics: list[Any]) -> Callable[[Message], Message]:
    more = [
        fetched.OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                fetched.OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=-1,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]

    def amend(response: Any) -> Message:
        for group in response.groups:
            if group.group_id == group_id and not group.error_code:
                group.topics = [*group.topics, *more]
        assert isinstance(response, Message)
        return response

    return amend


def _check_offset_delete(question: Question) -> Answer:
    """The response's one code is for the group; topics that may not be read are refused by partition."""
    from barnabas.wire.messages import offset_delete_response as deleted

    request = question.request
    question.require(Operation.DELETE, GROUP, request.group_id)
    allowed, refused = [], []
    for topic in request.topics:
        if question.may(Operation.READ, TOPIC, topic.name):
            allowed.append(topic)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(
                deleted.OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        deleted.OffsetDeleteResponsePartition(
                            partition_index=part.partition_index, error_code=code
                        )
                        for part in topic.partitions
                    ],
                )
            )
    if not refused:
        return None
    if not allowed:
        return deleted.OffsetDeleteResponse(topics=refused)
    request.topics = allowed
    return adding("topics", refused)


def _check_list_groups(question: Question) -> Answer:
    if question.may_cluster(Operation.DESCRIBE, audited=False):
        return None

    def amend(response: Any) -> Message:
        response.groups = [
            group
            for group in response.groups
            if question.may(Operation.DESCRIBE, GROUP, group.group_id, audited=False)
        ]
        assert isinstance(response, Message)
        return response

    return amend


def _check_group_operations(question: Question) -> Answer:
    def amend(response: Any) -> Message:
        for group in response.groups:
            if group.authorized_operations != NOT_ASKED:
                group.authorized_operations = question.authorizer.operations(
                    question.ctx, GROUP, group.group_id
                )
        assert isinstance(response, Message)
        return response

    return amend


def _check_group_heartbeat(question: Question) -> None:
    """Topics named in the subscription have to be describable, all of them."""
    request = question.request
    question.require(Operation.READ, GROUP, request.group_id)
    for name in request.subscribed_topic_names or ():
        question.require(Operation.DESCRIBE, TOPIC, name)


def _check_group_describe(question: Question) -> Answer:
    """A group whose members are assigned a topic that may not be described is told as an error."""
    answer = split(question, Operation.DESCRIBE, GROUP, "group_ids", lambda name: str(name), "groups")
    if isinstance(answer, Message):
        return answer
    operations = _check_group_operations(question)
    assert operations is not None and not isinstance(operations, Message)

    def hide(response: Any) -> Message:
        for group in response.groups:
            named = {
                topic.topic_name
                for member in group.members
                for assigned in (member.assignment, getattr(member, "target_assignment", None))
                if assigned is not None
                for topic in assigned.topic_partitions
            }
            if not all(question.may(Operation.DESCRIBE, TOPIC, name) for name in sorted(named)):
                group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                group.error_message = (
                    "The group has described topic(s) that the client is not authorized to describe."
                )
                group.members = []
        assert isinstance(response, Message)
        return response

    amends = [operations, hide] if answer is None else [operations, hide, answer]
    return lambda response: amended(response, amends)


# -- transactions ----------------------------------------------------------------------------------


def _check_add_partitions(question: Question) -> Answer:
    """From version 4 on brokers ask on behalf of many; before, a client names one transaction."""
    request = question.request
    if question.ctx.api_version >= 4:
        question.require(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return None
    name = request.v3_and_below_transactional_id
    question.require(Operation.WRITE, TRANSACTIONAL_ID, name)
    topics = list(request.v3_and_below_topics)
    left = {t.name for t in topics if not question.may(Operation.WRITE, TOPIC, t.name)}
    if not left:
        return None
    # All or nothing: what is allowed is not attempted.
    response: Any = question.refused(ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic in response.results_by_topic_v3_and_below:
        if topic.name in left:
            for part in topic.results_by_partition:
                part.partition_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert isinstance(response, Message)
    return response


def _check_write_markers(question: Question) -> None:
    if not question.may_cluster(Operation.ALTER, audited=False):
        question.require(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def _check_list_transactions(question: Question) -> Answer:
    def amend(response: Any) -> Message:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if question.may(
                Operation.DESCRIBE, TRANSACTIONAL_ID, state.transactional_id, audited=False
            )
        ]
        assert isinstance(response, Message)
        return response

    return amend


def _check_describe_transactions(question: Question) -> Answer:
    answer = split(
        question,
        Operation.DESCRIBE,
        TRANSACTIONAL_ID,
        "transactional_ids",
        lambda name: str(name),
        "transaction_states",
    )
    if isinstance(answer, Message):
        return answer

    def hide(response: Any) -> Message:
        for state in response.transaction_states:
            state.topics = [
                topic
                for topic in state.topics
                if question.may(Operation.DESCRIBE, TOPIC, topic.topic, audited=False)
            ]
        assert isinstance(response, Message)
        return response

    amends = [hide] if answer is None else [hide, answer]
    return lambda response: amended(response, amends)


READ_GROUP = whole(Operation.READ, GROUP, "group_id")
_EACH_TOPIC = (Operation.DESCRIBE, TOPIC)

BROKER_RULES: dict[ApiKey, Rule] = {
    ApiKey.PRODUCE: Rule(
        (
            _asks(Operation.WRITE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            _asks(Operation.WRITE, TRANSACTIONAL_ID),
        ),
        _check_produce,
    ),
    ApiKey.FETCH: Rule(
        (
            _asks(Operation.READ, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            _asks(Operation.CLUSTER_ACTION, CLUSTER, "TOPIC_AUTHORIZATION_FAILED (followers)"),
        ),
        _check_fetch,
    ),
    ApiKey.LIST_OFFSETS: each(*_EACH_TOPIC, "topics", "name", "topics"),
    ApiKey.METADATA: Rule(
        (
            _asks(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, or not told of"),
            ("Create", "Cluster or Topic", "TOPIC_AUTHORIZATION_FAILED (to create it)"),
        ),
        _check_metadata,
    ),
    ApiKey.OFFSET_COMMIT: both(READ_GROUP, each(Operation.READ, TOPIC, "topics", "name", "topics")),
    ApiKey.OFFSET_FETCH: Rule(
        (
            _asks(Operation.DESCRIBE, GROUP),
            _asks(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, or not told of"),
        ),
        _check_offset_fetch,
    ),
    ApiKey.FIND_COORDINATOR: Rule(
        (
            _asks(Operation.DESCRIBE, GROUP, "GROUP_AUTHORIZATION_FAILED for each"),
            _asks(
                Operation.DESCRIBE,
                TRANSACTIONAL_ID,
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for each",
            ),
        ),
        _check_find_coordinator,
    ),
    ApiKey.JOIN_GROUP: READ_GROUP,
    ApiKey.HEARTBEAT: READ_GROUP,
    ApiKey.LEAVE_GROUP: READ_GROUP,
    ApiKey.SYNC_GROUP: READ_GROUP,
    ApiKey.DESCRIBE_GROUPS: both(
        Rule((), _check_group_operations),
        each(Operation.DESCRIBE, GROUP, "groups", None, "groups"),
    ),
    ApiKey.LIST_GROUPS: Rule(
        (
            ("Describe", "Cluster", "as below"),
            _asks(Operation.DESCRIBE, GROUP, "others are not told of"),
        ),
        _check_list_groups,
    ),
    ApiKey.DELETE_RECORDS: each(Operation.DELETE, TOPIC, "topics", "name", "topics"),
    ApiKey.INIT_PRODUCER_ID: Rule(
        (
            _asks(Operation.WRITE, TRANSACTIONAL_ID),
            ("TwoPhaseCommit", "TransactionalId", "the same, for a two-phase commit"),
            ("IdempotentWrite", "Cluster", "CLUSTER_AUTHORIZATION_FAILED (no transactional id)"),
            ("Write", "any Topic", "(instead of IdempotentWrite)"),
        ),
        _check_init_producer_id,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: each(
        *_EACH_TOPIC, "topics", "topic", "topics", unless=Operation.CLUSTER_ACTION
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Rule(
        (
            _asks(Operation.WRITE, TRANSACTIONAL_ID),
            _asks(Operation.WRITE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            _asks(Operation.CLUSTER_ACTION, CLUSTER, "the same (brokers, from version 4 on)"),
        ),
        _check_add_partitions,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: both(
        whole(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"), READ_GROUP
    ),
    ApiKey.END_TXN: whole(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"),
    ApiKey.WRITE_TXN_MARKERS: Rule(
        (
            _asks(Operation.ALTER, CLUSTER),
            _asks(Operation.CLUSTER_ACTION, CLUSTER, "(instead of Alter)"),
        ),
        _check_write_markers,
    ),
    ApiKey.TXN_OFFSET_COMMIT: both(
        whole(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"),
        READ_GROUP,
        each(Operation.READ, TOPIC, "topics", "name", "topics"),
    ),
    ApiKey.DESCRIBE_ACLS: whole(Operation.DESCRIBE),
    ApiKey.DESCRIBE_CONFIGS: DESCRIBE_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ALTER_LOGGERS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: whole(Operation.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: whole(Operation.DESCRIBE),
    ApiKey.DELETE_GROUPS: each(Operation.DELETE, GROUP, "groups_names", None, "results"),
    ApiKey.OFFSET_DELETE: Rule(
        (
            _asks(Operation.DELETE, GROUP),
            _asks(Operation.READ, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
        ),
        _check_offset_delete,
    ),
    ApiKey.DESCRIBE_CLUSTER: Rule((), _check_describe_cluster),
    ApiKey.DESCRIBE_PRODUCERS: each(Operation.READ, TOPIC, "topics", "name", "topics"),
    ApiKey.DESCRIBE_TRANSACTIONS: Rule(
        (
            _asks(
                Operation.DESCRIBE,
                TRANSACTIONAL_ID,
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for each",
            ),
            _asks(Operation.DESCRIBE, TOPIC, "others are not told of"),
        ),
        _check_describe_transactions,
    ),
    ApiKey.LIST_TRANSACTIONS: Rule(
        (_asks(Operation.DESCRIBE, TRANSACTIONAL_ID, "others are not told of"),),
        _check_list_transactions,
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Rule(
        (_asks(Operation.READ, GROUP), _asks(Operation.DESCRIBE, TOPIC)), _check_group_heartbeat
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Rule(
        (
            _asks(Operation.DESCRIBE, GROUP, "GROUP_AUTHORIZATION_FAILED for each"),
            _asks(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for the group"),
        ),
        _check_group_describe,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Rule(
        (_asks(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, or not told of"),),
        _check_describe_topic_partitions,
    ),
    ApiKey.LIST_CONFIG_RESOURCES: whole(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: whole(Operation.DESCRIBE),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: whole(Operation.DESCRIBE_CONFIGS),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: NOTHING,
    ApiKey.PUSH_TELEMETRY: NOTHING,
    ApiKey.SASL_HANDSHAKE: NOTHING,
    ApiKey.SASL_AUTHENTICATE: NOTHING,
    ApiKey.CREATE_DELEGATION_TOKEN: NOTHING,
    ApiKey.RENEW_DELEGATION_TOKEN: NOTHING,
    ApiKey.EXPIRE_DELEGATION_TOKEN: NOTHING,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: NOTHING,
}
