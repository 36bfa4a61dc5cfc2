"""Strangers on the controllers' listener: APIs of nodes want ClusterAction, before anything else."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.raft import handlers
from barnabas.security.authorization.access_rules import guard
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.security.authorization.controller_access import CONTROLLER_RULES
from barnabas.types import Endpoint, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import RequestContext

OF_NODES = [
    module
    for module in handlers.HANDLERS
    if module.API.key
    not in (ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
]


def acl(number: int, **fields: Any) -> AccessControlEntryRecord:
    given = {
        "id": Uuid(number.to_bytes(16, "big")), "resource_type": AclResourceType.TOPIC,
        "resource_name": "t", "pattern_type": 3, "principal": "User:node", "host": "*",
        "operation": Operation.WRITE, "permission_type": 3,
    }  # fmt: skip
    return AccessControlEntryRecord(**{**given, **fields})


def authorizer_with(*records: AccessControlEntryRecord) -> Authorizer:
    image = MetadataImage()
    image.replay_batch(list(records), 0, 1)
    return Authorizer(image, super_users=["User:root"])


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:alice"])
@pytest.mark.parametrize("module", OF_NODES, ids=lambda module: module.API.key.name)
def test_the_quorum_listens_to_no_stranger(module: Any, principal: str) -> None:
    reached: list[str] = []

    def handle(request: Any, ctx: RequestContext, role: Any) -> None:
        reached.append(ctx.principal)

    table = ApiTable().add_handler(module.API, handle, None)
    guard(table, CONTROLLER_RULES, authorizer_with(acl(1)))
    entry = table.get(module.API.key)
    assert entry is not None
    for asker in (principal, "User:root"):
        ctx = RequestContext(
            api_key=module.API.key, api_version=1, principal=asker, peer=Endpoint("h", 1)
        )
        if asker == principal:
            with pytest.raises(KafkaError) as refused:
                entry.handle(None, ctx, None)
            assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        else:
            entry.handle(None, ctx, None)
    assert reached == ["User:root"]


def test_absurdly_long_patterns_name_what_they_name() -> None:
    longest = "p" * 32_767
    prefixes = [
        acl(n, resource_name=longest[:n], pattern_type=4, principal="User:other")
        for n in range(1, 400)
    ]
    authorizer = authorizer_with(
        *prefixes,
        acl(1000, resource_name=longest),
        acl(1001, resource_name=longest[:-1], pattern_type=4),
    )

    def may(name: str) -> bool:
        ctx = RequestContext(api_key=0, api_version=9, principal="User:node", peer=Endpoint("h", 1))
        return authorizer.may(ctx, Operation.WRITE, AclResourceType.TOPIC, name)

    assert may(longest) and may(longest[:-1] + "q")
    assert not may("p" * 249) and not may("")


@pytest.mark.slow
def test_among_100_000_entries_the_one_that_counts_is_found() -> None:
    records = [
        acl(n, resource_name=f"t{n // 2}", principal=f"User:u{n % 1000}") for n in range(100_000)
    ]
    authorizer = authorizer_with(*records)

    def may(user: str, name: str) -> bool:
        ctx = RequestContext(api_key=0, api_version=9, principal=user, peer=Endpoint("h", 1))
        return authorizer.may(ctx, Operation.WRITE, AclResourceType.TOPIC, name)

    assert may("User:u7", "t3") and not may("User:u7", "t4") and not may("User:u1", "t49999")
    assert may("User:u999", "t49999")
