"""Quotas and SCRAM credentials in znodes: written by the controller, read by every broker."""

from __future__ import annotations

from typing import Any

from barnabas.security.scram_credentials import scram_credential
from barnabas.types import Endpoint
from barnabas.wire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.schema import Message
from barnabas.zookeeper.operations import Create, SetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

SHA_256 = 1
ALICES_APP = (("client-id", "app"), ("user", "alice"))


def set_quota(cluster: ZookeeperCluster, broker: int, value: float, *, remove: bool = False) -> int:
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in ALICES_APP]
    op = OpData(key="producer_byte_rate", value=value, remove=remove)
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])])
    return int(cluster.ask(broker, request).entries[0].error_code)


def set_password(cluster: ZookeeperCluster, broker: int) -> int:
    one = ScramCredentialUpsertion(
        name="alice", mechanism=SHA_256, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[one])
    return int(cluster.ask(broker, request).results[0].error_code)


def quotas(cluster: ZookeeperCluster) -> list[dict[str, float]]:
    """Of alice's app, as each broker has them."""
    return [
        node.broker.image.client_quotas.get(ALICES_APP, {})
        for node in cluster.nodes.values()
        if node.broker is not None
    ]


def test_a_quota_is_written_to_its_znode_and_known_to_every_broker() -> None:
    cluster = ZookeeperCluster()
    other = next(broker for broker in cluster.nodes if broker != cluster.controller)
    assert set_quota(cluster, other, 1024) == 0
    config = {"version": 1, "config": {"producer_byte_rate": "1024"}}
    assert cluster.read("/config/users/alice/clients/app") == config
    cluster.wait(lambda: quotas(cluster) == [{"producer_byte_rate": 1024.0}] * 3, "quotas")
    assert set_quota(cluster, other, 0, remove=True) == 0
    cluster.wait(lambda: quotas(cluster) == [{}] * 3, "no quotas")


def test_a_scram_credential_outlives_the_controller_that_wrote_it() -> None:
    cluster = ZookeeperCluster()
    first = cluster.controller
    assert set_password(cluster, first) == 0
    found = cluster.read("/config/users/alice")
    assert found is not None and set(found["config"]) == {"SCRAM-SHA-256"}
    cluster.kill(first)
    second = cluster.wait_for_controller(first)
    deletion = ScramCredentialDeletion(name="alice", mechanism=SHA_256)
    request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
    assert cluster.ask(second, request).results[0].error_code == 0
    assert cluster.read("/config/users/alice") == {"version": 1, "config": {}}


def test_a_broker_that_starts_knows_the_credentials_that_are_there() -> None:
    cluster = ZookeeperCluster()
    assert set_password(cluster, cluster.controller) == 0
    broker = next(broker for broker in cluster.nodes if broker != cluster.controller)
    cluster.kill(broker)
    cluster.start(broker)

    def knows() -> bool:
        node = cluster.nodes[broker]
        if node.broker is None:
            return False
        known = node.broker.image.scram_credentials
        return scram_credential(known, "SCRAM-SHA-256", "alice") is not None

    cluster.wait(knows, "the credential")


def test_a_quota_that_another_tool_writes_is_followed_by_brokers_and_controller() -> None:
    cluster = ZookeeperCluster()
    assert set_quota(cluster, cluster.controller, 1024) == 0
    data = b'{"version":1,"config":{"producer_byte_rate":"2048","consumer_byte_rate":"7"}}'
    cluster.znode(SetData("/config/users/alice/clients/app", data))
    change = b'{"version":2,"entity_path":"users/alice/clients/app"}'
    cluster.znode(Create("/config/changes/config_change_", change, sequential=True))
    wanted = {"producer_byte_rate": 2048.0, "consumer_byte_rate": 7.0}
    cluster.wait(lambda: quotas(cluster) == [wanted] * 3, "both quotas")
    decider = cluster.nodes[cluster.controller].controller
    assert decider is not None
    image = decider.decider.image
    cluster.wait(lambda: image.client_quotas.get(ALICES_APP) == wanted, "the controller's")
    assert set_quota(cluster, cluster.controller, 0, remove=True) == 0
    config = {"version": 1, "config": {"consumer_byte_rate": "7"}}
    assert cluster.read("/config/users/alice/clients/app") == config


def test_the_broker_that_alters_a_configuration_answers_next_what_holds() -> None:
    cluster = ZookeeperCluster()
    assert cluster.create("t", 1) == 0
    cluster.wait(lambda: all(knows(cluster, b, "t") for b in cluster.nodes), "the topic")
    for broker, value in ((1, "1000"), (2, "2000"), (3, "3000")):
        change = AlterableConfig(name="retention.ms", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        asked = DescribeConfigsResource(
            resource_type=2, resource_name="t", configuration_keys=["retention.ms"]
        )
        answers = ask_in_turn(
            cluster,
            broker,
            IncrementalAlterConfigsRequest(resources=[resource]),
            DescribeConfigsRequest(resources=[asked]),
        )
        assert answers[0].responses[0].error_code == 0
        assert [one.value for one in answers[1].results[0].configs] == [value]


def ask_in_turn(cluster: ZookeeperCluster, broker: int, first: Message, then: Message) -> list[Any]:
    """The second at the instant at which the first is answered."""
    answers: list[Any] = []
    at = Endpoint(f"n{broker}", 9092)
    send = cluster.client.channels.send

    def on_first(answer: Any) -> None:
        answers.append(answer)
        send(at, then, answers.append, timeout_ms=20_000)

    send(at, first, on_first, timeout_ms=20_000)
    cluster.wait(lambda: len(answers) == 2, "both answers")
    return answers


def knows(cluster: ZookeeperCluster, broker: int, topic: str) -> bool:
    node = cluster.nodes[broker]
    return node.broker is not None and topic in node.broker.image.topics_by_name
