"""The authorization rules of the APIs on brokers' listeners.

APIs that are forwarded have no rule here: the active controller authorizes the principal in the Envelope.
Source: Kafka's KafkaApis and AuthHelper.
"""

from __future__ import annotations

from barnabas.security.authorization.access_rules import (
    NOTHING,
    AccessRule,
    ask,
    both,
    each,
    whole,
)
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.security.authorization.config_access import ALTER_LOGGERS, DESCRIBE_CONFIGS
from barnabas.security.authorization.group_access import (
    check_find_coordinator,
    check_group_describe,
    check_group_heartbeat,
    check_group_operations,
    check_list_groups,
    check_offset_delete,
    check_offset_fetch,
)
from barnabas.security.authorization.share_access import (
    check_alter_offsets,
    check_delete_offsets,
    check_describe_offsets,
)
from barnabas.security.authorization.streams_access import (
    check_streams_describe,
    check_streams_heartbeat,
)
from barnabas.security.authorization.token_access import check_create_token, check_describe_token
from barnabas.security.authorization.topic_access import (
    check_describe_cluster,
    check_describe_topic_partitions,
    check_fetch,
    check_init_producer_id,
    check_metadata,
    check_produce,
)
from barnabas.security.authorization.transaction_access import (
    check_add_partitions,
    check_describe_transactions,
    check_list_transactions,
    check_write_markers,
)
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID


_NO_TOKENS = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED.name
READ_SHARED = AccessRule(
    (
        ask(Operation.READ, GROUP),
        ask(Operation.READ, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, whenever it is looked at"),
    ),
    whole(Operation.READ, GROUP, "group_id").check,
)
READ_GROUP = whole(Operation.READ, GROUP, "group_id")
_EACH_TOPIC = (Operation.DESCRIBE, TOPIC)

BROKER_RULES: dict[ApiKey, AccessRule] = {
    ApiKey.PRODUCE: AccessRule(
        (
            ask(Operation.WRITE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            ask(Operation.WRITE, TRANSACTIONAL_ID),
        ),
        check_produce,
    ),
    ApiKey.FETCH: AccessRule(
        (
            ask(Operation.READ, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            ask(Operation.CLUSTER_ACTION, CLUSTER, "TOPIC_AUTHORIZATION_FAILED (followers)"),
        ),
        check_fetch,
    ),
    ApiKey.LIST_OFFSETS: each(*_EACH_TOPIC, "topics", "name", "topics"),
    ApiKey.METADATA: AccessRule(
        (
            ask(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, or left out"),
            ask(Operation.CREATE, CLUSTER, "TOPIC_AUTHORIZATION_FAILED (to create it)"),
            ask(Operation.CREATE, TOPIC, "(instead of the above)"),
        ),
        check_metadata,
    ),
    ApiKey.OFFSET_COMMIT: both(READ_GROUP, each(Operation.READ, TOPIC, "topics", "name", "topics")),
    ApiKey.OFFSET_FETCH: AccessRule(
        (
            ask(Operation.DESCRIBE, GROUP),
            ask(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, or left out"),
        ),
        check_offset_fetch,
    ),
    ApiKey.FIND_COORDINATOR: AccessRule(
        (
            ask(Operation.DESCRIBE, GROUP, "GROUP_AUTHORIZATION_FAILED for each"),
            ask(
                Operation.DESCRIBE,
                TRANSACTIONAL_ID,
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for each",
            ),
        ),
        check_find_coordinator,
    ),
    ApiKey.JOIN_GROUP: READ_GROUP,
    ApiKey.HEARTBEAT: READ_GROUP,
    ApiKey.LEAVE_GROUP: READ_GROUP,
    ApiKey.SYNC_GROUP: READ_GROUP,
    ApiKey.DESCRIBE_GROUPS: both(
        AccessRule((), check_group_operations),
        each(Operation.DESCRIBE, GROUP, "groups", None, "groups"),
    ),
    ApiKey.LIST_GROUPS: AccessRule(
        (
            ask(Operation.DESCRIBE, CLUSTER, "as below"),
            ask(Operation.DESCRIBE, GROUP, "others are left out"),
        ),
        check_list_groups,
    ),
    ApiKey.DELETE_RECORDS: each(Operation.DELETE, TOPIC, "topics", "name", "topics"),
    ApiKey.INIT_PRODUCER_ID: AccessRule(
        (
            ask(Operation.WRITE, TRANSACTIONAL_ID),
            ask(Operation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, "the same, for a two-phase commit"),
            ask(
                Operation.IDEMPOTENT_WRITE,
                CLUSTER,
                "CLUSTER_AUTHORIZATION_FAILED (no transactional id)",
            ),
            ask(Operation.WRITE, TOPIC, "(any topic, instead of IdempotentWrite)"),
        ),
        check_init_producer_id,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: each(
        *_EACH_TOPIC, "topics", "topic", "topics", unless=Operation.CLUSTER_ACTION
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: AccessRule(
        (
            ask(Operation.WRITE, TRANSACTIONAL_ID),
            ask(Operation.WRITE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
            ask(Operation.CLUSTER_ACTION, CLUSTER, "the same (brokers, from version 4 on)"),
        ),
        check_add_partitions,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: both(
        whole(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"), READ_GROUP
    ),
    ApiKey.END_TXN: whole(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"),
    ApiKey.WRITE_TXN_MARKERS: AccessRule(
        (
            ask(Operation.ALTER, CLUSTER),
            ask(Operation.CLUSTER_ACTION, CLUSTER, "(instead of Alter)"),
        ),
        check_write_markers,
    ),
    ApiKey.TXN_OFFSET_COMMIT: both(
        whole(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"),
        READ_GROUP,
        each(Operation.READ, TOPIC, "topics", "name", "topics"),
    ),
    ApiKey.DESCRIBE_ACLS: whole(Operation.DESCRIBE),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: whole(Operation.DESCRIBE),
    ApiKey.DESCRIBE_CONFIGS: DESCRIBE_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ALTER_LOGGERS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: whole(Operation.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: whole(Operation.DESCRIBE),
    ApiKey.DELETE_GROUPS: each(Operation.DELETE, GROUP, "groups_names", None, "results"),
    ApiKey.OFFSET_DELETE: AccessRule(
        (
            ask(Operation.DELETE, GROUP),
            ask(Operation.READ, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
        ),
        check_offset_delete,
    ),
    ApiKey.DESCRIBE_CLUSTER: AccessRule(
        (ask(Operation.DESCRIBE, CLUSTER, "what controllers did and refused is left out"),),
        check_describe_cluster,
    ),
    ApiKey.DESCRIBE_PRODUCERS: each(Operation.READ, TOPIC, "topics", "name", "topics"),
    ApiKey.DESCRIBE_TRANSACTIONS: AccessRule(
        (
            ask(
                Operation.DESCRIBE,
                TRANSACTIONAL_ID,
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for each",
            ),
            ask(Operation.DESCRIBE, TOPIC, "others are left out"),
        ),
        check_describe_transactions,
    ),
    ApiKey.LIST_TRANSACTIONS: AccessRule(
        (ask(Operation.DESCRIBE, TRANSACTIONAL_ID, "others are left out"),),
        check_list_transactions,
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: AccessRule(
        (ask(Operation.READ, GROUP), ask(Operation.DESCRIBE, TOPIC)), check_group_heartbeat
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: AccessRule(
        (
            ask(Operation.DESCRIBE, GROUP, "GROUP_AUTHORIZATION_FAILED for each"),
            ask(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for the group"),
        ),
        check_group_describe,
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: AccessRule(
        (ask(Operation.READ, GROUP), ask(Operation.DESCRIBE, TOPIC)), check_group_heartbeat
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: AccessRule(
        (
            ask(Operation.DESCRIBE, GROUP, "GROUP_AUTHORIZATION_FAILED for each"),
            ask(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for the group"),
        ),
        check_group_describe,
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: AccessRule(
        (
            ask(Operation.READ, GROUP),
            ask(Operation.DESCRIBE, TOPIC),
            ask(Operation.CREATE, CLUSTER, "MISSING_INTERNAL_TOPICS, a status (to create them)"),
            ask(Operation.CREATE, TOPIC, "(instead of the above)"),
        ),
        check_streams_heartbeat,
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: AccessRule(
        (
            ask(Operation.DESCRIBE, GROUP, "GROUP_AUTHORIZATION_FAILED for each"),
            ask(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for the group"),
        ),
        check_streams_describe,
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: READ_GROUP,
    ApiKey.SHARE_FETCH: READ_SHARED,
    ApiKey.SHARE_ACKNOWLEDGE: READ_SHARED,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: whole(Operation.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE: whole(Operation.CLUSTER_ACTION),
    ApiKey.WRITE_SHARE_GROUP_STATE: whole(Operation.CLUSTER_ACTION),
    ApiKey.DELETE_SHARE_GROUP_STATE: whole(Operation.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: whole(Operation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: AccessRule(
        (
            ask(Operation.DESCRIBE, GROUP, "GROUP_AUTHORIZATION_FAILED for each"),
            ask(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, or left out"),
        ),
        check_describe_offsets,
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: AccessRule(
        (
            ask(Operation.READ, GROUP),
            ask(Operation.READ, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
        ),
        check_alter_offsets,
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: AccessRule(
        (
            ask(Operation.DELETE, GROUP),
            ask(Operation.READ, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each"),
        ),
        check_delete_offsets,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: AccessRule(
        (ask(Operation.DESCRIBE, TOPIC, "TOPIC_AUTHORIZATION_FAILED for each, or left out"),),
        check_describe_topic_partitions,
    ),
    ApiKey.LIST_CONFIG_RESOURCES: whole(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: whole(Operation.DESCRIBE),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: whole(Operation.DESCRIBE_CONFIGS),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: NOTHING,
    ApiKey.PUSH_TELEMETRY: NOTHING,
    ApiKey.SASL_HANDSHAKE: NOTHING,
    ApiKey.SASL_AUTHENTICATE: NOTHING,
    ApiKey.CREATE_DELEGATION_TOKEN: AccessRule(
        (ask(Operation.CREATE_TOKENS, AclResourceType.USER, f"{_NO_TOKENS} (of another owner)"),),
        check_create_token,
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: NOTHING,
    ApiKey.EXPIRE_DELEGATION_TOKEN: NOTHING,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: AccessRule(
        (
            ask(Operation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, "others are left out"),
            ask(Operation.DESCRIBE_TOKENS, AclResourceType.USER, "(instead of the above)"),
        ),
        check_describe_token,
    ),
}
