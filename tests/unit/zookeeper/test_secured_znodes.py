"""ACLs of what brokers create, where ``zookeeper.set.acl`` is set: those of Kafka 3.9."""

from __future__ import annotations

import pytest

from barnabas.zookeeper.operations import (
    OPEN_ACL,
    READ_ACL,
    CheckVersion,
    Create,
    GetData,
    Multi,
)
from barnabas.zookeeper.secured_znodes import CREATOR, secured


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/brokers/topics/t", (CREATOR, *READ_ACL)),
        ("/config/users", (CREATOR,)),
        ("/config/users/alice", (CREATOR,)),
        ("/config/brokers/1", (CREATOR,)),
        ("/delegation_token/tokens/x", (CREATOR,)),
        ("/delegation_token/token_changes", (CREATOR, *READ_ACL)),
        ("/consumers", OPEN_ACL),
    ],
)
def test_a_znode_belongs_to_the_brokers(path: str, acl: object) -> None:
    created = secured(Create(path, b"x", ephemeral=True))
    assert isinstance(created, Create)
    assert created.acl == acl and created.ephemeral and created.data == b"x"


def test_creations_of_a_transaction_are_secured_too() -> None:
    transaction = secured(Multi((CheckVersion("/controller_epoch", 1), Create("/a"))))
    assert isinstance(transaction, Multi)
    assert transaction.operations[0] == CheckVersion("/controller_epoch", 1)
    assert transaction.operations[1] == Create("/a", acl=(CREATOR, *READ_ACL))
    assert secured(GetData("/a")) == GetData("/a")
