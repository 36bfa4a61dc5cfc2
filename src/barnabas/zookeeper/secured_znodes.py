"""``zookeeper.set.acl``: znodes that only brokers may change, and those with secrets only brokers may read.

The brokers' identity is that of their connections to the ensemble, a certificate: what one broker creates the
others may change, where all have the same one.

Source: Kafka 3.9's ``ZkData.defaultAcls``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

from barnabas.zookeeper.layout.config_znodes import CONFIG
from barnabas.zookeeper.layout.token_znodes import TOKENS
from barnabas.zookeeper.operations import (
    READ_ACL,
    Create,
    Multi,
    Perms,
    Request,
    ZnodeAcl,
)

T = TypeVar("T")
CREATOR = ZnodeAcl(Perms.ALL, "auth", "")
"""The ensemble puts the identity of the connection in its place."""
SENSITIVE = (f"{CONFIG}/users", f"{CONFIG}/brokers", TOKENS)
"""Credentials, passwords and tokens are at and below them."""
OPEN = "/consumers"
"""Consumers of before Kafka 0.9 write below it."""


def acl_of(path: str) -> tuple[ZnodeAcl, ...]:
    """The ACL of a znode that a broker creates."""
    return (CREATOR,) if path.startswith(SENSITIVE) else (CREATOR, *READ_ACL)


def secured(request: Request[T]) -> Request[T]:
    """The request with the ACLs of all that it creates."""
    if isinstance(request, Create):
        return cast("Request[T]", _secured(request))
    if isinstance(request, Multi):
        operations = tuple(
            _secured(one) if isinstance(one, Create) else one for one in request.operations
        )
        return cast("Request[T]", Multi(operations))
    return request


def _secured(create: Create) -> Create:
    return create if create.path == OPEN else replace(create, acl=acl_of(create.path))
