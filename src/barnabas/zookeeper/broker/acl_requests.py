"""CreateAcls and DeleteAcls where ZooKeeper coordinates the cluster: the broker that is asked writes.

Entries are written pattern by pattern, each conditional on its znode's version; the answer follows when all
are written, and this broker judges by them from then on. The result of the first
filter that matches an entry names it, and no other's.

Source: Kafka 3.9's ``AclApis`` and ``AclAuthorizer`` (createAcls, deleteAcls).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import cast

from barnabas.controller.handlers import create_acls, delete_acls
from barnabas.controller.handlers.create_acls import NO_AUTHORIZER
from barnabas.controller.security.acls import check_known, checked_acl
from barnabas.controller.security.change_audit import ChangeAudit
from barnabas.security.authorization.acls import (
    Acl,
    AclFilter,
    AclResourceType,
    Operation,
    PatternType,
    matches,
    matches_resource,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from barnabas.wire.request import HandlerModule, Parked, RequestContext
from barnabas.zookeeper.acl_store import AclStore, Rules
from barnabas.zookeeper.errors import BadArguments
from barnabas.zookeeper.layout.acl_znodes import AclPattern, AclRule
from barnabas.zookeeper.znode_tree import check_path

Update = Callable[[Rules], Rules]


class AclRequests:
    """The requests of clients about the entries. `store` is None without an authorizer."""

    def __init__(self, store: AclStore | None, audit: ChangeAudit) -> None:
        self._store = store
        self._audit = audit

    def create(self, request: CreateAclsRequest, ctx: RequestContext) -> Parked:
        """Raises SECURITY_DISABLED, INVALID_REQUEST."""
        store = self._known_store()
        check_known(
            (c.resource_type, c.resource_pattern_type, c.operation, c.permission_type)
            for c in request.creations
        )
        results = [AclCreationResult(error_message=None) for _ in request.creations]
        wanted: dict[AclPattern, list[tuple[int, AclRule]]] = {}
        for number, creation in enumerate(request.creations):
            try:
                pattern, rule = _split(_checked(creation))
            except KafkaError as error:
                results[number].error_code = error.code
                results[number].error_message = error.message
                continue
            wanted.setdefault(pattern, []).append((number, rule))
        parked = Parked()
        added: dict[Acl, None] = {}

        def change(pattern: AclPattern, present: Rules) -> Rules:
            new = dict.fromkeys(rule for _, rule in wanted[pattern] if rule not in present)
            added.update((_joined(pattern, rule), None) for rule in new)
            return (*present, *new)

        def finished(failures: Mapping[AclPattern, str]) -> None:
            for pattern, why in failures.items():
                for number, _ in wanted[pattern]:
                    results[number].error_code = ErrorCode.UNKNOWN_SERVER_ERROR
                    results[number].error_message = why
            written = (acl for acl in added if _split(acl)[0] not in failures)
            self._audit.log_created_acls(written, ctx.principal)
            parked.complete(CreateAclsResponse(results=results))

        _update_all(store, {one: partial(change, one) for one in wanted}, finished)
        return parked

    def delete(self, request: DeleteAclsRequest, ctx: RequestContext) -> Parked:
        """Raises SECURITY_DISABLED, INVALID_REQUEST."""
        store = self._known_store()
        filters = request.filters
        check_known(
            (f.resource_type_filter, f.pattern_type_filter, f.operation, f.permission_type)
            for f in filters
        )
        patterns = dict.fromkeys(
            one
            for one in [*store.rules, *(p for f in filters for p in _named_patterns(f))]
            if any(matches_resource(cast(AclFilter, f), _joined(one, _ANY_RULE)) for f in filters)
        )
        matched: dict[Acl, int] = {}
        """The first filter that matches each entry."""
        parked = Parked()

        def change(pattern: AclPattern, present: Rules) -> Rules:
            kept = []
            for rule in present:
                acl = _joined(pattern, rule)
                number = _first_match(filters, acl)
                if number is None:
                    kept.append(rule)
                else:
                    matched.setdefault(acl, number)
            return tuple(kept)

        def finished(failures: Mapping[AclPattern, str]) -> None:
            results = [DeleteAclsFilterResult(error_message=None) for _ in filters]
            for acl in sorted(matched):
                why = failures.get(_split(acl)[0])
                code = ErrorCode.NONE if why is None else ErrorCode.UNKNOWN_SERVER_ERROR
                matching = DeleteAclsMatchingAcl(
                    error_code=code, error_message=why, **acl._asdict()
                )
                one = results[matched[acl]]
                one.matching_acls = [*one.matching_acls, matching]
                if why is None:
                    self._audit.log_deleted_acls([acl], ctx.principal)
            parked.complete(DeleteAclsResponse(filter_results=results))

        _update_all(store, {one: partial(change, one) for one in patterns}, finished)
        return parked

    def _known_store(self) -> AclStore:
        if self._store is None:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return self._store

    def modules(self) -> tuple[HandlerModule, ...]:
        """The handlers for a listener's table; the role is this object."""
        return cast(
            "tuple[HandlerModule, ...]",
            (
                SimpleNamespace(
                    API=create_acls.API, handle=lambda r, ctx, role: role.create(r, ctx)
                ),
                SimpleNamespace(
                    API=delete_acls.API, handle=lambda r, ctx, role: role.delete(r, ctx)
                ),
            ),
        )

    def __repr__(self) -> str:
        return f"AclRequests({self._store})"


_ANY_RULE = AclRule("", "", Operation.ANY, 1)


def _update_all(
    store: AclStore,
    changes: Mapping[AclPattern, Update],
    done: Callable[[Mapping[AclPattern, str]], None],
) -> None:
    """`done` gets the patterns that could not be written, with why."""
    open_ones = set(changes)
    failures: dict[AclPattern, str] = {}
    if not changes:
        done(failures)

    def on_one(pattern: AclPattern, why: str) -> None:
        if why:
            failures[pattern] = why
        open_ones.discard(pattern)
        if not open_ones:
            done(failures)

    for pattern, change in changes.items():
        store.update(pattern, change, partial(on_one, pattern))


def _checked(wanted: AclCreation) -> Acl:
    """Raises INVALID_REQUEST, as Kafka 3.9."""
    acl = checked_acl(wanted, metadata_version=0)  # Kafka 3.9 knows no networks
    if not _is_znode_name(acl.resource_name):
        why = f"ACL binding contains invalid resource name: {acl.resource_name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Failed to create ACL: {why}")
    if acl.operation == Operation.TWO_PHASE_COMMIT:
        why = "brokers of Kafka 3.9 could not read an entry for TwoPhaseCommit"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Failed to create ACL: {why}")
    return acl


def _is_znode_name(name: str) -> bool:
    """Whether a resource's name can be a part of a path: no slash, no dot alone, no control character."""
    try:
        check_path(f"/{name}")
    except BadArguments:
        return False
    return "/" not in name


def _split(acl: Acl) -> tuple[AclPattern, AclRule]:
    pattern = AclPattern(acl.resource_type, acl.resource_name, acl.pattern_type)
    return pattern, AclRule(acl.principal, acl.host, acl.operation, acl.permission_type)


def _joined(pattern: AclPattern, rule: AclRule) -> Acl:
    return Acl(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission,
    )


def _first_match(filters: Sequence[DeleteAclsFilter], acl: Acl) -> int | None:
    return next((n for n, f in enumerate(filters) if matches(cast(AclFilter, f), acl)), None)


def _named_patterns(wanted: DeleteAclsFilter) -> list[AclPattern]:
    """Patterns that a filter names, whether this broker has heard of them or not."""
    kind, name = wanted.resource_type_filter, wanted.resource_name_filter
    if kind == AclResourceType.ANY or not name or not _is_znode_name(name):
        return []
    wanted_type = wanted.pattern_type_filter
    types = (PatternType.LITERAL, PatternType.PREFIXED)
    return [
        AclPattern(kind, name, int(one)) for one in types if wanted_type in (one, PatternType.ANY)
    ]
