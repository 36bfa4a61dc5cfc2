"""CreateAcls and DeleteAcls: they decide the entries to write and to remove.

An entry that exists is answered as created, without a record. Each filter removes the entries that
match it; an entry that matches two filters is removed once, and is in both answers.

Source: Kafka's AclControlManager and AclApis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata.features import NETWORKS_IN_ACLS_SINCE, metadata_version_name
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from barnabas.security.authorization.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
    acl_of,
    matches,
)
from barnabas.security.authorization.networks import is_network, network_of
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from barnabas.wire.messages.delete_acls_request import DeleteAclsRequest
from barnabas.wire.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)

RECORDS_MAX = 10_000
"""Records that one request may cause, as in Kafka."""


def create_acls(
    cluster: ControllerContext, request: CreateAclsRequest, random_id: Callable[[], Uuid]
) -> Decision[CreateAclsResponse]:
    """Decide CreateAcls. Raises INVALID_REQUEST if an entry has a code that no version knows."""
    check_known(
        (c.resource_type, c.resource_pattern_type, c.operation, c.permission_type)
        for c in request.creations
    )
    existing = set(_entries(cluster).values())
    records: list[AccessControlEntryRecord] = []
    results = []
    for wanted in request.creations:
        result = AclCreationResult(error_message=None)
        results.append(result)
        try:
            acl = checked_acl(wanted, cluster.image.metadata_version)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if acl not in existing:
            existing.add(acl)
            records.append(AccessControlEntryRecord(id=random_id(), **acl._asdict()))
    _check_size(len(records))
    return Decision(CreateAclsResponse(results=results), records)


def _entries(cluster: ControllerContext) -> dict[Uuid, Acl]:
    records = cast("dict[Uuid, AccessControlEntryRecord]", cluster.image.acls)
    return {acl_id: acl_of(record) for acl_id, record in records.items()}


def check_known(codes: Iterable[tuple[int, int, int, int]]) -> None:
    """Raises INVALID_REQUEST for unknown codes, with which Kafka cannot read a request."""
    for resource_type, pattern_type, operation, permission in codes:
        if (
            resource_type not in range(1, 8)
            or pattern_type not in range(1, 5)
            or operation not in range(1, 16)
            or permission not in range(1, 4)
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "ACLs contain UNKNOWN elements")


def checked_acl(wanted: AclCreation, metadata_version: int) -> Acl:
    """The entry of a request. Raises INVALID_REQUEST, and UNSUPPORTED_VERSION for a network if the
    metadata version has none."""
    problem = ""
    if wanted.resource_type == AclResourceType.CLUSTER and wanted.resource_name != CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not wanted.resource_name:
        problem = "Invalid empty resource name"
    elif wanted.resource_type == AclResourceType.ANY:
        problem = "Invalid resourceType ANY"
    elif wanted.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"Invalid patternType {PatternType(wanted.resource_pattern_type).name}"
    elif wanted.operation == Operation.ANY:
        problem = "Invalid operation ANY"
    elif wanted.permission_type == Permission.ANY:
        problem = "Invalid permissionType ANY"
    elif not wanted.host:
        problem = "Host should not be empty"
    elif ":" not in wanted.principal:
        problem = (
            f"Could not parse principal from `{wanted.principal}` (no colon is present separating"
            " the principal type from the principal name)"
        )
    if problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if is_network(wanted.host):
        _check_network(wanted.host, metadata_version)
    return Acl(
        wanted.resource_type,
        wanted.resource_name,
        wanted.resource_pattern_type,
        wanted.principal,
        wanted.host,
        wanted.operation,
        wanted.permission_type,
    )


def _check_network(host: str, metadata_version: int) -> None:
    if metadata_version < NETWORKS_IN_ACLS_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version"
            f" {metadata_version_name(NETWORKS_IN_ACLS_SINCE)} or higher.",
        )
    try:
        network_of(host)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def delete_acls(
    cluster: ControllerContext, request: DeleteAclsRequest
) -> Decision[DeleteAclsResponse]:
    """Decide DeleteAcls. Raises INVALID_REQUEST if a filter has a code that no version knows."""
    check_known(
        (f.resource_type_filter, f.pattern_type_filter, f.operation, f.permission_type)
        for f in request.filters
    )
    entries = _entries(cluster)
    removed: dict[Uuid, None] = {}
    results = []
    for wanted in request.filters:
        found = [acl_id for acl_id, acl in entries.items() if matches(cast(AclFilter, wanted), acl)]
        removed.update(dict.fromkeys(found))
        reported = sorted(entries[acl_id] for acl_id in found)
        results.append(
            DeleteAclsFilterResult(
                error_message=None,
                matching_acls=[
                    DeleteAclsMatchingAcl(error_message=None, **acl._asdict()) for acl in reported
                ],
            )
        )
    _check_size(len(removed))
    records = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed]
    return Decision(DeleteAclsResponse(filter_results=results), records)


def _check_size(records: int) -> None:
    if records > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The request is for {records} changes; one request may make {RECORDS_MAX}.",
        )
