"""What moves with a running cluster, and what is written to both: entries, quotas, configurations."""

from __future__ import annotations

from copy import copy
from typing import cast

import pytest

from barnabas.controller.decision import Decision
from barnabas.metadata.image.image import TOPIC
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.zookeeper.config.settings import ACL_AUTHORIZER
from barnabas.zookeeper.layout.token_znodes import TOKENS
from barnabas.zookeeper.operations import GetData, SetData
from tests.unit.zookeeper.migrating_cluster import MigratingCluster
from tests.unit.zookeeper.test_acls import create, delete, entry
from tests.unit.zookeeper.test_tokens import create as create_token
from tests.unit.zookeeper.test_tokens import wait_everywhere

pytestmark = pytest.mark.slow
OPEN = {"allow.everyone.if.no.acl.found": "true", "super.users": "User:ANONYMOUS"}


def guarded() -> MigratingCluster:
    """Resources that no entry names are for all."""
    cluster = MigratingCluster(
        authorizer_class_name=ACL_AUTHORIZER, allow_everyone_if_no_acl_found="true"
    )
    cluster.controller_settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        **OPEN,
    }
    return cluster


def set_config(cluster: MigratingCluster, broker: int, topic: str, key: str, value: str) -> int:
    resource = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[AlterableConfig(name=key, config_operation=0, value=value)],
    )
    answer = cluster.ask(broker, IncrementalAlterConfigsRequest(resources=[resource]))
    return int(answer.responses[0].error_code)


def set_quota(cluster: MigratingCluster, broker: int, user: str, rate: float) -> int:
    wanted = EntryData(
        entity=[EntityData(entity_type="user", entity_name=user)],
        ops=[OpData(key="producer_byte_rate", value=rate, remove=False)],
    )
    return int(
        cluster.ask(broker, AlterClientQuotasRequest(entries=[wanted])).entries[0].error_code
    )


def config_of(cluster: MigratingCluster, entity: str) -> dict[str, str]:
    found = cluster.read(f"/config/{entity}")
    return {} if found is None else dict(found["config"])


def test_delegation_tokens_move_and_are_written_to_both() -> None:
    cluster = MigratingCluster(delegation_token_secret_key="k")
    cluster.controller_settings = {"delegation.token.secret.key": "k"}
    cluster.wait_for_controller()
    made = create_token(cluster, 2)
    cluster.begin()
    cluster.wait_for_dual_write()
    assert list(cluster.image().delegation_tokens) == [made.token_id]
    wait_everywhere(cluster, made.token_id, made.expiry_timestamp_ms)
    record = cluster.image().delegation_tokens[made.token_id]
    assert cluster.read(f"{TOKENS}/{made.token_id}") is not None
    leader = next(
        node.controller
        for node in cluster.controllers.values()
        if node.controller is not None and node.controller.may_decide
    )
    later = copy(cast("DelegationTokenRecord", record))
    later.token_id = "of-kraft"
    leader.commit(Decision(None, [later]))
    cluster.wait(lambda: "of-kraft" in cluster.children(TOKENS), "its znode")
    wait_everywhere(cluster, "of-kraft", later.expiration_timestamp)
    leader.commit(Decision(None, [RemoveDelegationTokenRecord(token_id="of-kraft")]))
    wait_everywhere(cluster, "of-kraft", None)


def test_entries_quotas_and_configurations_move_and_are_written_to_both() -> None:
    cluster = guarded()
    cluster.wait_for_controller()
    assert [cluster.create(topic, 1) for topic in ("t", "u", "v")] == [0, 0, 0]
    assert create(cluster, 2, entry("t")) == [0]
    assert set_config(cluster, 1, "v", "retention.ms", "1234567") == 0
    assert set_quota(cluster, 1, "alice", 1000.0) == 0
    cluster.begin()
    cluster.wait_for_dual_write()
    image = cluster.image()
    assert len(image.acls) == 1
    assert image.config(TOPIC, "v")["retention.ms"] == "1234567"
    assert image.client_quotas[("user", "alice"),] == {"producer_byte_rate": 1000.0}

    assert create(cluster, 3, entry("u")) == [0]
    assert set_config(cluster, 2, "v", "segment.ms", "7654321") == 0
    assert set_quota(cluster, 3, "bob", 2000.0) == 0
    cluster.wait(lambda: "u" in cluster.children("/kafka-acl/Topic"), "the entry's znode")
    cluster.wait(lambda: "segment.ms" in config_of(cluster, "topics/v"), "the configuration")
    cluster.wait(lambda: "producer_byte_rate" in config_of(cluster, "users/bob"), "the quota")
    leader = image.topics_by_name["u"].leader[0]
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.wait(lambda: cluster.produce("u", leader) == refused, "the broker judges by it")
    assert delete(cluster, 1, "u") == [1]
    cluster.wait(lambda: cluster.children("/kafka-acl/Topic") == ["t"], "the entry's end")
    cluster.wait(lambda: cluster.produce("u", leader) == 0, "the broker judges without it")


def test_configurations_that_kraft_does_not_know_stay_in_the_znodes() -> None:
    cluster = MigratingCluster()
    assert cluster.create("t", cluster.wait_for_controller(), retention_ms="1000") == 0
    found = cluster.znode(GetData("/config/topics/t"))
    data = found.data.replace(b'"retention.ms"', b'"message.format.version":"2.8","retention.ms"')
    cluster.znode(SetData("/config/topics/t", data))
    cluster.begin()
    cluster.wait_for_dual_write()
    assert config_of(cluster, "topics/t") == {
        "message.format.version": "2.8",
        "retention.ms": "1000",
    }
    assert set_config(cluster, 1, "t", "retention.ms", "2000") == 0
    wanted = {"message.format.version": "2.8", "retention.ms": "2000"}
    cluster.wait(lambda: config_of(cluster, "topics/t") == wanted, "it is written to both")
