"""Access control entries by the wire: list, add, remove. Each function is one coroutine over `Client`.

Source: KIP-140, KIP-290.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.client.client import Client, raise_for
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest

ANY = 1
"""Any type, pattern, operation or permission, in a filter."""


class AclEntry(NamedTuple):
    """One entry, in the protocol's codes."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclQuery(NamedTuple):
    """Which entries are meant; None and `ANY` are all."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission_type: int = ANY

    def fields(self) -> dict[str, Any]:
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.resource_name,
            "pattern_type_filter": self.pattern_type,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission_type,
        }


async def list_acls(client: Client, query: AclQuery) -> list[AclEntry]:
    """Sorted. Raises `KafkaError`."""
    response = await client.ask_any(
        lambda: DescribeAclsRequest(**query.fields()),
        lambda r: raise_for(r.error_code, r.error_message),
    )
    return sorted(
        AclEntry(
            resource.resource_type, resource.resource_name, resource.pattern_type,
            acl.principal, acl.host, acl.operation, acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )  # fmt: skip


async def add_acls(client: Client, entries: Sequence[AclEntry]) -> None:
    """Raises `KafkaError` for the first that is refused; the others are there."""

    def request() -> CreateAclsRequest:
        creations = [
            AclCreation(
                resource_type=e.resource_type, resource_name=e.resource_name,
                resource_pattern_type=e.pattern_type, principal=e.principal, host=e.host,
                operation=e.operation, permission_type=e.permission_type,
            )
            for e in entries
        ]  # fmt: skip
        return CreateAclsRequest(creations=creations)

    def check(response: Any) -> None:
        for result in response.results:
            raise_for(result.error_code, result.error_message)

    await client.ask_any(request, check)


async def remove_acls(client: Client, queries: Sequence[AclQuery]) -> list[AclEntry]:
    """The entries that were removed, sorted. Raises `KafkaError`."""

    def request() -> DeleteAclsRequest:
        return DeleteAclsRequest(filters=[DeleteAclsFilter(**q.fields()) for q in queries])

    def check(response: Any) -> None:
        for result in response.filter_results:
            raise_for(result.error_code, result.error_message)

    response = await client.ask_any(request, check)
    return sorted(
        {
            AclEntry(
                acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host,
                acl.operation, acl.permission_type,
            )
            for result in response.filter_results
            for acl in result.matching_acls
        }
    )  # fmt: skip
