"""Delegation tokens in znodes: any broker writes them, every broker knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.security.delegation_tokens import tokens_of
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from barnabas.wire.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.wire.request import Parked, Proof, RequestContext
from barnabas.zookeeper.operations import Create, Delete, Multi, SetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

HOUR_MS = 3_600_000
CHECK_MS = 2_000


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster(
        delegation_token_secret_key="k",
        delegation_token_expiry_check_interval_ms=str(CHECK_MS),
    )
    yield made
    made.world.let_go()


def context(user: str, proof: Proof = Proof.OWN) -> RequestContext:
    return RequestContext(
        api_key=ApiKey.CREATE_DELEGATION_TOKEN,
        api_version=3,
        client_id="c",
        principal=f"User:{user}",
        proof=proof,
    )


def ask(cluster: ZookeeperCluster, broker: int, request: Any, user: str = "alice") -> Any:
    """What an authenticated user gets from one broker."""
    requests = cluster.nodes[broker].token_requests
    assert requests is not None
    api = type(request).API_KEY
    module = next(one for one in requests.modules() if one.API.key == api)
    answer = module.handle(request, context(user), requests)
    if not isinstance(answer, Parked):
        return answer
    got: list[Any] = []
    answer.attach(got.append)
    cluster.wait(lambda: bool(got), "an answer")
    return got[0]


def create(cluster: ZookeeperCluster, broker: int, user: str = "alice", life_ms: int = -1) -> Any:
    renewers = [CreatableRenewers(principal_type="User", principal_name="bob")]
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=life_ms)
    return ask(cluster, broker, request, user)


def known(cluster: ZookeeperCluster, broker: int, token_id: str) -> DelegationTokenRecord | None:
    node = cluster.nodes[broker].broker
    return None if node is None else tokens_of(node.image).get(token_id)


def wait_everywhere(cluster: ZookeeperCluster, token_id: str, expiry_ms: int | None) -> None:
    def all_know() -> bool:
        found = [known(cluster, broker, token_id) for broker in cluster.nodes]
        return [None if one is None else one.expiration_timestamp for one in found] == (
            [expiry_ms] * len(found)
        )

    cluster.wait(all_know, f"{token_id} ends at {expiry_ms} everywhere")


def test_a_token_is_a_znode_of_kafka_3_9_and_known_to_every_broker(
    cluster: ZookeeperCluster,
) -> None:
    answer = create(cluster, 2)
    assert answer.error_code == 0 and len(answer.hmac) == 64
    znode = cluster.read(f"/delegation_token/tokens/{answer.token_id}")
    assert znode is not None
    assert znode["version"] == 3 and znode["owner"] == znode["tokenRequester"] == "User%3Aalice"
    assert znode["renewers"] == ["User%3Abob"] and znode["tokenId"] == answer.token_id
    assert len(cluster.children("/delegation_token/token_changes")) == 1
    wait_everywhere(cluster, answer.token_id, answer.expiry_timestamp_ms)


def test_a_token_is_renewed_and_removed_at_other_brokers(cluster: ZookeeperCluster) -> None:
    made = create(cluster, 1)
    wait_everywhere(cluster, made.token_id, made.expiry_timestamp_ms)
    renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=HOUR_MS)
    assert ask(cluster, 2, renewal, "carol").error_code == (
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )
    renewed = ask(cluster, 2, renewal, "bob")
    assert renewed.error_code == 0 and renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
    wait_everywhere(cluster, made.token_id, renewed.expiry_timestamp_ms)
    ended = ask(cluster, 3, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1))
    assert ended.error_code == 0
    assert not cluster.children("/delegation_token/tokens")
    wait_everywhere(cluster, made.token_id, None)
    assert ask(cluster, 1, renewal, "bob").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    audited = [line.split() for line in cluster.world.trace if " token." in line]
    assert [(words[3], words[-1]) for words in audited] == [
        ("token.set", "by=User:alice"),
        ("token.set", "by=User:bob"),
        ("token.removed", "by=User:alice"),
    ]


def test_a_broker_that_starts_knows_the_tokens_that_are_there(cluster: ZookeeperCluster) -> None:
    made = create(cluster, 1)
    cluster.kill(3)
    cluster.start(3)
    wait_everywhere(cluster, made.token_id, made.expiry_timestamp_ms)


def test_a_token_that_has_expired_is_removed_by_the_controller(cluster: ZookeeperCluster) -> None:
    cluster.wait_for_controller()
    made = create(cluster, 1, life_ms=1_000)
    cluster.wait(lambda: not cluster.children("/delegation_token/tokens"), "its znode is gone")
    wait_everywhere(cluster, made.token_id, None)


def test_tokens_of_brokers_of_kafka_are_followed(cluster: ZookeeperCluster) -> None:
    made = create(cluster, 1)
    path = f"/delegation_token/tokens/{made.token_id}"
    znode = cluster.read(path)
    assert znode is not None
    later = made.expiry_timestamp_ms + 1
    text = str(znode).replace("'", '"').replace(str(made.expiry_timestamp_ms), str(later))
    notice = Create(
        "/delegation_token/token_changes/token_change_", made.token_id.encode(), sequential=True
    )
    cluster.znode(Multi((SetData(path, text.encode()), notice)))
    wait_everywhere(cluster, made.token_id, later)
    cluster.znode(Multi((Delete(path), notice)))
    wait_everywhere(cluster, made.token_id, None)


def test_a_notification_that_was_removed_has_all_tokens_read_again(
    cluster: ZookeeperCluster,
) -> None:
    made = create(cluster, 1)
    wait_everywhere(cluster, made.token_id, made.expiry_timestamp_ms)
    notice = "/delegation_token/token_changes/token_change_0000000009"
    token = f"/delegation_token/tokens/{made.token_id}"
    # Another broker, whose date is ahead, removes the notification before these have listed it.
    cluster.znode(Multi((Delete(token), Create(notice, made.token_id.encode()), Delete(notice))))
    wait_everywhere(cluster, made.token_id, None)


def test_an_unreadable_token_hides_none_of_the_others(cluster: ZookeeperCluster) -> None:
    cluster.znode(Create("/delegation_token/tokens/broken", b"no json"))
    made = create(cluster, 1)
    cluster.kill(2)
    cluster.start(2)
    wait_everywhere(cluster, made.token_id, made.expiry_timestamp_ms)


def test_a_client_without_a_proof_of_its_own_gets_no_token(cluster: ZookeeperCluster) -> None:
    request = CreateDelegationTokenRequest(renewers=[])
    assert cluster.ask(1, request).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    described = cluster.ask(1, DescribeDelegationTokenRequest(owners=None))
    assert described.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_tokens_need_a_secret_key() -> None:
    cluster = ZookeeperCluster()
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert create(cluster, 1).error_code == code
    assert not cluster.children("/delegation_token")
    cluster.world.let_go()
