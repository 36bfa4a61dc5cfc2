"""ACLs: the codes of Kafka's protocol, one ACL as a value, and filters.

Source: Kafka's ResourceType, PatternType, AclOperation, AclPermissionType, AclBindingFilter,
ResourcePatternFilter, AclEntry.supportedOperations.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord

CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""
WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"


class AclResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED_OPERATIONS: dict[AclResourceType, tuple[Operation, ...]] = {
    AclResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (
        Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT,
    ),
    AclResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    AclResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip
"""The operations on a resource, by its type."""


class Acl(NamedTuple):
    """One ACL. Two with equal fields are the same ACL."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        return (
            f"{name_of(Permission, self.permission_type)} {self.principal} from {self.host} to"
            f" {name_of(Operation, self.operation)}"
            f" {name_of(AclResourceType, self.resource_type)}:"
            f"{name_of(PatternType, self.pattern_type)}:{self.resource_name}"
        )


def name_of(kind: type[IntEnum], code: int) -> str:
    """The protocol's name of a code; codes of later versions are UNKNOWN."""
    return next((member.name for member in kind if member == code), "UNKNOWN")


def acl_of(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


class AclFilter(Protocol):
    """The fields by which DescribeAcls and DeleteAcls select ACLs; None matches every name."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def matches(wanted: AclFilter, acl: Acl) -> bool:
    """Whether a filter selects an ACL."""
    return (
        matches_resource(wanted, acl)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (Operation.ANY, acl.operation)
        and wanted.permission_type in (Permission.ANY, acl.permission_type)
    )


def matches_resource(wanted: AclFilter, acl: Acl) -> bool:
    """Whether a filter selects the ACL's resource pattern."""
    return wanted.resource_type_filter in (
        AclResourceType.ANY,
        acl.resource_type,
    ) and _names_match(wanted.pattern_type_filter, wanted.resource_name_filter, acl)


def _names_match(pattern_type: int, name: str | None, acl: Acl) -> bool:
    if pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
        return False
    if name is None:
        return True
    if pattern_type != PatternType.MATCH:
        return name == acl.resource_name
    if acl.pattern_type == PatternType.LITERAL:
        return acl.resource_name in (name, WILDCARD)
    return name.startswith(acl.resource_name)
