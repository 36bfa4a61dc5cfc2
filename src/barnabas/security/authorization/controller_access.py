"""The authorization rules of the APIs on controllers' listeners, and of forwarded requests.

Source: Kafka's ControllerApis.
"""

from __future__ import annotations

from typing import Any

from barnabas.security.authorization.access_rules import (
    AccessRule,
    Answer,
    Question,
    adding,
    ask,
    each,
    whole,
)
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.security.authorization.broker_access import BROKER_RULES
from barnabas.security.authorization.config_access import ALTER_CONFIGS, DESCRIBE_CONFIGS
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_topics_request import DeleteTopicState
from barnabas.wire.messages.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)
from barnabas.wire.schema import Message

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MESSAGE = "Topic authorization failed."


def _check_create_topics(question: Question) -> Answer:
    """Create on the cluster allows any topic, otherwise Create on the topic is needed. Without
    DescribeConfigs on the topic the answer has no configuration."""
    request = question.request
    whole_cluster = question.may_cluster(Operation.CREATE, audited=False)
    allowed: list[Any] = []
    left: list[Any] = []
    for topic in request.topics:
        may = whole_cluster or question.may(Operation.CREATE, TOPIC, topic.name)
        (allowed if may else left).append(topic)
    hidden = {
        topic.name
        for topic in allowed
        if not question.may(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name, audited=False)
    }
    refused: Any = question.refused(FAILED, "Authorization failed.", topics=left)
    if left and not allowed:
        assert isinstance(refused, Message)
        return refused
    request.topics = allowed

    def amend(response: Any) -> Message:
        for topic in response.topics:
            if topic.name in hidden and not topic.error_code:
                topic.topic_config_error_code = FAILED
                topic.configs = []
                topic.num_partitions = topic.replication_factor = -1
        return adding("topics", refused.topics)(response)

    return amend if left or hidden else None


def _check_delete_topics(question: Question) -> Answer:
    """Delete on the cluster or the topic is needed. The refusal of a topic named by its id has its name only
    if the principal may describe it."""
    if question.may_cluster(Operation.DELETE, audited=False):
        return None
    request = question.request
    allowed: list[DeleteTopicState] = []
    refused: list[DeletableTopicResult] = []
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    for state in asked:
        if state.name is not None and state.topic_id != ZERO_UUID:
            allowed.append(state)  # the handler refuses a topic with both name and id
            continue
        name = question.topic_name(state, state.name)
        if name is None or question.may(Operation.DELETE, TOPIC, name):
            allowed.append(state)
            continue
        shown: str | None = name
        if state.name is None and not question.may(Operation.DESCRIBE, TOPIC, name, audited=False):
            shown = None
        refused.append(
            DeletableTopicResult(
                name=shown,
                topic_id=Uuid(state.topic_id),
                error_code=FAILED,
                error_message=MESSAGE,
            )
        )
    if not refused:
        return None
    if not allowed:
        return DeleteTopicsResponse(responses=refused)
    if request.topic_names:
        request.topic_names = [state.name for state in allowed]
    else:
        request.topics = allowed
    return adding("responses", refused)


ACTION = whole(Operation.CLUSTER_ACTION)
ALTER = whole(Operation.ALTER)
DESCRIBE = whole(Operation.DESCRIBE)

CONTROLLER_RULES: dict[ApiKey, AccessRule] = {
    ApiKey.FETCH: ACTION,
    ApiKey.FETCH_SNAPSHOT: ACTION,
    ApiKey.VOTE: ACTION,
    ApiKey.BEGIN_QUORUM_EPOCH: ACTION,
    ApiKey.END_QUORUM_EPOCH: ACTION,
    ApiKey.UPDATE_RAFT_VOTER: ACTION,
    ApiKey.DESCRIBE_QUORUM: DESCRIBE,
    ApiKey.ADD_RAFT_VOTER: ALTER,
    ApiKey.REMOVE_RAFT_VOTER: ALTER,
    ApiKey.ENVELOPE: ACTION,
    ApiKey.CREATE_TOPICS: AccessRule(
        (
            ask(Operation.CREATE, CLUSTER, "as below"),
            ask(Operation.CREATE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            ask(Operation.DESCRIBE_CONFIGS, TOPIC, "the configuration is left out"),
        ),
        _check_create_topics,
    ),
    ApiKey.DELETE_TOPICS: AccessRule(
        (
            ask(Operation.DELETE, CLUSTER, "as below"),
            ask(Operation.DELETE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            ask(Operation.DESCRIBE, TOPIC, "the name of a topic named by id is left out"),
        ),
        _check_delete_topics,
    ),
    ApiKey.CREATE_PARTITIONS: each(Operation.ALTER, TOPIC, "topics", "name", "results"),
    ApiKey.ALTER_CONFIGS: ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS: DESCRIBE_CONFIGS,
    ApiKey.ELECT_LEADERS: ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: DESCRIBE,
    ApiKey.UPDATE_FEATURES: ALTER,
    ApiKey.UNREGISTER_BROKER: ALTER,
    ApiKey.UNREGISTER_CONTROLLER: ALTER,
    ApiKey.CREATE_ACLS: ALTER,
    ApiKey.DELETE_ACLS: ALTER,
    ApiKey.DESCRIBE_ACLS: DESCRIBE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: DESCRIBE,
    ApiKey.ALTER_PARTITION: ACTION,
    ApiKey.ALLOCATE_PRODUCER_IDS: ACTION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ACTION,
    ApiKey.BROKER_REGISTRATION: ACTION,
    ApiKey.BROKER_HEARTBEAT: ACTION,
    ApiKey.CONTROLLER_REGISTRATION: ACTION,
    ApiKey.LIST_CONFIG_RESOURCES: BROKER_RULES[ApiKey.LIST_CONFIG_RESOURCES],
    ApiKey.DESCRIBE_CLUSTER: BROKER_RULES[ApiKey.DESCRIBE_CLUSTER],
    ApiKey.ALTER_CLIENT_QUOTAS: whole(Operation.ALTER_CONFIGS),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ALTER,
    ApiKey.SASL_HANDSHAKE: BROKER_RULES[ApiKey.SASL_HANDSHAKE],
    ApiKey.SASL_AUTHENTICATE: BROKER_RULES[ApiKey.SASL_AUTHENTICATE],
    ApiKey.CREATE_DELEGATION_TOKEN: BROKER_RULES[ApiKey.CREATE_DELEGATION_TOKEN],
    ApiKey.RENEW_DELEGATION_TOKEN: BROKER_RULES[ApiKey.RENEW_DELEGATION_TOKEN],
    ApiKey.EXPIRE_DELEGATION_TOKEN: BROKER_RULES[ApiKey.EXPIRE_DELEGATION_TOKEN],
}
