"""`/kafka-acl/TYPE/NAME`, `/kafka-acl-extended/prefixed/TYPE/NAME` and their changes.

One znode holds all entries of one resource pattern. Kafka writes them in the order of a set whose hash is
another one in each process; here they keep the order in which they were read or added.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.types import Uuid
from barnabas.zookeeper.layout.java_order import java_map
from barnabas.zookeeper.layout.json_bytes import (
    JsonReader,
    MalformedZnode,
    to_json,
    utf8_text,
)

LITERAL_ROOT = "/kafka-acl"
EXTENDED_ROOT = "/kafka-acl-extended"
LITERAL_CHANGES = "/kafka-acl-changes"
EXTENDED_CHANGES = "/kafka-acl-extended-changes"
CHANGE_NAME = "acl_changes_"
LITERAL, PREFIXED = 3, 4
RESOURCE_TYPES = {
    2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 6: "DelegationToken", 7: "User",
}  # fmt: skip
_RESOURCE_ENUMS = {
    2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER",
}  # fmt: skip
OPERATIONS = {
    2: "All", 3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe",
    9: "ClusterAction", 10: "DescribeConfigs", 11: "AlterConfigs", 12: "IdempotentWrite", 13: "CreateTokens",
    14: "DescribeTokens", 15: "TwoPhaseCommit",
}  # fmt: skip
PERMISSIONS = {2: "Deny", 3: "Allow"}
VERSION = 1


@dataclass(frozen=True, slots=True)
class AclPattern:
    """A resource pattern, by Kafka's numbers."""

    resource_type: int
    name: str
    pattern_type: int = LITERAL

    @property
    def path(self) -> str:
        root = LITERAL_ROOT if self.pattern_type == LITERAL else f"{EXTENDED_ROOT}/prefixed"
        return f"{root}/{RESOURCE_TYPES[self.resource_type]}/{self.name}"


@dataclass(frozen=True, slots=True)
class AclRule:
    """One entry: who may or may not do what, from where."""

    principal: str
    host: str
    operation: int
    permission: int


def acl_record(number: Uuid, pattern: AclPattern, rule: AclRule) -> AccessControlEntryRecord:
    """The entry as a record of the metadata log with the id `number`."""
    return AccessControlEntryRecord(
        id=number,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def acl_of_record(record: AccessControlEntryRecord) -> tuple[AclPattern, AclRule]:
    """The znode's part of a record of the metadata log."""
    return (
        AclPattern(record.resource_type, record.resource_name, record.pattern_type),
        AclRule(record.principal, record.host, record.operation, record.permission_type),
    )


@dataclass(frozen=True, slots=True)
class AclZnode:
    pattern: AclPattern
    rules: tuple[AclRule, ...]

    @property
    def path(self) -> str:
        return self.pattern.path

    def encode(self) -> bytes:
        acls = [
            java_map(
                {
                    "principal": one.principal,
                    "permissionType": PERMISSIONS[one.permission],
                    "operation": OPERATIONS[one.operation],
                    "host": one.host,
                }
            )
            for one in self.rules
        ]
        return to_json(java_map({"version": VERSION, "acls": acls}))

    @classmethod
    def decode(cls, path: str, data: bytes) -> AclZnode:
        """Raises `MalformedZnode`."""
        pattern = pattern_of(path)
        if not data:
            return cls(pattern, ())
        fields = JsonReader.parse(path, data)
        fields.check_version(VERSION, VERSION)
        return cls(
            pattern,
            tuple(
                AclRule(
                    one.text("principal"),
                    one.text("host"),
                    _number(one, "operation", OPERATIONS),
                    _number(one, "permissionType", PERMISSIONS),
                )
                for one in fields.objects("acls")
            ),
        )


@dataclass(frozen=True, slots=True)
class AclChangeZnode:
    """A sequential child of `/kafka-acl-changes` or `/kafka-acl-extended-changes`."""

    pattern: AclPattern
    name: str = ""
    """The name of the znode, once it has its number."""

    @property
    def path(self) -> str:
        is_literal = self.pattern.pattern_type == LITERAL
        folder = LITERAL_CHANGES if is_literal else EXTENDED_CHANGES
        return f"{folder}/{self.name or CHANGE_NAME}"

    def encode(self) -> bytes:
        resource = _RESOURCE_ENUMS[self.pattern.resource_type]
        if self.pattern.pattern_type == LITERAL:
            return f"{resource}:{self.pattern.name}".encode()
        return to_json(
            {
                "version": VERSION,
                "resourceType": resource,
                "name": self.pattern.name,
                "patternType": "PREFIXED",
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> AclChangeZnode:
        """Raises `MalformedZnode`."""
        folder, _, znode = path.rpartition("/")
        if folder == EXTENDED_CHANGES:
            fields = JsonReader.parse(path, data)
            fields.check_version(VERSION, VERSION)
            if fields.text("patternType").upper() != "PREFIXED":
                raise fields.wrong("patternType", "not PREFIXED")
            pattern = AclPattern(
                _resource_type(path, fields.text("resourceType")), fields.text("name"), PREFIXED
            )
            return cls(pattern, znode)
        kind, colon, name = utf8_text(path, data).partition(":")
        if not colon:
            raise MalformedZnode(path, "no ResourceType:name")
        return cls(AclPattern(_resource_type(path, kind), name), znode)


def acl_id(pattern: AclPattern, rule: AclRule) -> Uuid:
    """The id that a record of this entry gets: znodes have none, so that each reading gives the same."""
    text = f"{pattern.path}\0{rule.principal}\0{rule.host}\0{rule.operation}\0{rule.permission}"
    return Uuid(hashlib.sha256(text.encode()).digest()[:16])


def pattern_of(path: str) -> AclPattern:
    """Raises `MalformedZnode`."""
    literal, extended = f"{LITERAL_ROOT}/", f"{EXTENDED_ROOT}/prefixed/"
    root = literal if path.startswith(literal) else extended
    kind, slash, name = path.removeprefix(root).partition("/")
    if not path.startswith(root) or not slash:
        raise MalformedZnode(path, "no ACLs of a resource")
    pattern_type = LITERAL if root == literal else PREFIXED
    return AclPattern(_resource_type(path, kind), name, pattern_type)


def _resource_type(path: str, text: str) -> int:
    for number, name in RESOURCE_TYPES.items():
        if text in (name, _RESOURCE_ENUMS[number]):
            return number
    raise MalformedZnode(path, f"{text!r} is no resource type")


def _number(fields: JsonReader, key: str, names: dict[int, str]) -> int:
    text = fields.text(key)
    for number, name in names.items():
        if name.lower() == text.lower():
            return number
    raise fields.wrong(key, f"{text!r}, which is unknown")
