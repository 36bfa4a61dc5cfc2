"""``barnabas acls``: list, add and remove access control entries; options are those of Kafka's kafka-acls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import product

import typer

from barnabas.cli.confirming import USAGE, DryRun, Yes, confirm
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.client.acls import AclEntry, AclQuery, add_acls, list_acls, remove_acls
from barnabas.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
    name_of,
)

app = typer.Typer(help="List, add and remove access control entries (ACLs).", no_args_is_help=True)
Resource = tuple[AclResourceType, str]

_Topic = typer.Option([], "--topic", metavar="NAME", help="A topic; '*' is every topic.")
_Group = typer.Option([], "--group", metavar="ID", help="A consumer group; '*' is every group.")
_Txn = typer.Option([], "--transactional-id", metavar="ID", help="A transactional id.")
_Cluster = typer.Option(False, "--cluster", help="The cluster itself.")
_Pattern = typer.Option(
    "", "--resource-pattern-type", metavar="TYPE",
    help="literal (the default) or prefixed; to list and remove also match and any.",
)  # fmt: skip
_Allow = typer.Option(
    [], "--allow-principal", metavar="PRINCIPAL", help="Who may, as User:alice; 'User:*' is all."
)
_Deny = typer.Option([], "--deny-principal", metavar="PRINCIPAL", help="Who may not.")
_AllowHost = typer.Option(
    [],
    "--allow-host",
    metavar="ADDRESS",
    help="From where; '*' is anywhere, 10.0.0.0/8 a network.",
)
_DenyHost = typer.Option([], "--deny-host", metavar="ADDRESS", help="From where not.")
_Operation = typer.Option(
    [],
    "--operation",
    metavar="OPERATION",
    help="As Read, Write, DescribeConfigs, All (the default).",
)
_Principal = typer.Option([], "--principal", metavar="PRINCIPAL", help="Only entries of this one.")


@app.command("list")
def list_(
    topic: list[str] = _Topic,
    group: list[str] = _Group,
    transactional_id: list[str] = _Txn,
    on_cluster: bool = _Cluster,
    pattern: str = _Pattern,
    principal: list[str] = _Principal,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Entries, all of them or those of some resources and principals."""
    resources = _resources(topic, group, transactional_id, on_cluster)
    found: set[AclEntry] = set()
    with cluster(bootstrap, data) as connected:
        for query in _queries(resources, pattern, principal):
            found.update(connected.call(list_acls(connected.client, query)))
    _show(as_json, sorted(found), "there are no such ACLs")


@app.command()
def add(
    topic: list[str] = _Topic,
    group: list[str] = _Group,
    transactional_id: list[str] = _Txn,
    on_cluster: bool = _Cluster,
    pattern: str = _Pattern,
    allow: list[str] = _Allow,
    deny: list[str] = _Deny,
    allow_host: list[str] = _AllowHost,
    deny_host: list[str] = _DenyHost,
    operation: list[str] = _Operation,
    producer: bool = typer.Option(False, "--producer", help="What a producer of --topic needs."),
    consumer: bool = typer.Option(
        False, "--consumer", help="What a consumer of --topic in --group needs."
    ),
    idempotent: bool = typer.Option(
        False, "--idempotent", help="With --producer: IdempotentWrite on the cluster as well."
    ),
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Allow or deny. Entries that are there already stay."""
    if not allow and not deny:
        raise Failure("say who: --allow-principal or --deny-principal", USAGE)
    for who in (*allow, *deny):
        if ":" not in who:
            raise Failure(f"{who}: a principal has a type and a name, as User:{who}", USAGE)
    if producer or consumer:
        if operation or deny:
            raise Failure("--producer and --consumer say the operations, and only allow", USAGE)
        rights = _shortcut(topic, group, transactional_id, producer, consumer, idempotent)
    else:
        resources = _resources(topic, group, transactional_id, on_cluster)
        if not resources:
            raise Failure("say what: --topic, --group, --transactional-id or --cluster", USAGE)
        rights = [(r, o) for r in resources for o in _operations(operation)]
    for (kind, _), what in rights:
        if what is not Operation.ALL and what not in SUPPORTED_OPERATIONS[kind]:
            raise Failure(f"{_title(Operation, what)} is no operation on a {kind.name}", USAGE)
    code = _pattern(pattern or "literal", (PatternType.LITERAL, PatternType.PREFIXED))
    entries = [
        AclEntry(kind, name, _pattern_of(kind, code), who, host, what, permission)
        for permission, people, hosts in (
            (Permission.ALLOW, allow, allow_host),
            (Permission.DENY, deny, deny_host),
        )
        for ((kind, name), what), who, host in product(rights, people, hosts or [WILDCARD])
    ]
    if not dry_run:
        with cluster(bootstrap, data) as connected:
            connected.call(add_acls(connected.client, entries))
    _show(as_json, entries, "", "would be added" if dry_run else "added")


@app.command()
def remove(
    topic: list[str] = _Topic,
    group: list[str] = _Group,
    transactional_id: list[str] = _Txn,
    on_cluster: bool = _Cluster,
    pattern: str = _Pattern,
    allow: list[str] = _Allow,
    deny: list[str] = _Deny,
    principal: list[str] = _Principal,
    allow_host: list[str] = _AllowHost,
    deny_host: list[str] = _DenyHost,
    operation: list[str] = typer.Option([], "--operation", help="Only entries of this operation."),
    dry_run: bool = DryRun,
    yes: bool = Yes,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Remove the entries that the options name, and say which those are."""
    resources = _resources(topic, group, transactional_id, on_cluster)
    if not resources and not (allow or deny or principal):
        raise Failure("say which: a resource or a principal", USAGE)
    queries = [
        query._replace(permission_type=permission, host=host, operation=what)
        for permission, people, hosts in (
            (Permission.ALLOW, allow, allow_host),
            (Permission.DENY, deny, deny_host),
            (Permission.ANY, principal or ([] if allow or deny else None), []),
        )
        if people is None or people
        for query in _queries(resources, pattern or "literal" * bool(resources), people or [])
        for host in _or_any(hosts)
        for what in (_operations(operation) if operation else [Operation.ANY])
    ]
    with cluster(bootstrap, data) as connected:
        found: set[AclEntry] = set()
        for query in queries:
            found.update(connected.call(list_acls(connected.client, query)))
        if not found:
            raise Failure("no entry is named by this")
        if dry_run:
            _show(as_json, sorted(found), "", "would be removed")
            return
        for entry in [] if yes else sorted(found):
            say(_line(entry), err=True)
        confirm(f"Remove {len(found)} entr{'y' if len(found) == 1 else 'ies'}?", yes)
        removed = connected.call(remove_acls(connected.client, queries))
    _show(as_json, removed, "nothing was removed", "removed")


def _resources(
    topics: Iterable[str], groups: Iterable[str], transactional_ids: Iterable[str], on_cluster: bool
) -> list[Resource]:
    return [
        *((AclResourceType.TOPIC, name) for name in topics),
        *((AclResourceType.GROUP, name) for name in groups),
        *((AclResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids),
        *([(AclResourceType.CLUSTER, CLUSTER_NAME)] if on_cluster else []),
    ]


def _queries(resources: Sequence[Resource], pattern: str, people: Sequence[str]) -> list[AclQuery]:
    """One for each resource and principal; none of them is all of them."""
    code = _pattern(pattern or "any", tuple(PatternType)[1:])
    named: list[tuple[AclResourceType, str | None]] = [*resources] or [(AclResourceType.ANY, None)]
    return [
        AclQuery(kind, name, code if name != CLUSTER_NAME else PatternType.ANY, who)
        for (kind, name), who in product(named, _or_any(people))
    ]


def _or_any(names: Sequence[str]) -> list[str | None]:
    return [*names] or [None]


def _shortcut(
    topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str],
    producer: bool, consumer: bool, idempotent: bool,
) -> list[tuple[Resource, Operation]]:  # fmt: skip
    """The operations that producers and consumers need, as kafka-acls has it."""
    if not topics:
        raise Failure("--producer and --consumer need --topic", USAGE)
    if consumer and not groups:
        raise Failure("--consumer needs --group", USAGE)
    rights: dict[tuple[Resource, Operation], None] = {}
    on_topics: list[Operation] = [Operation.DESCRIBE]
    if producer:
        on_topics += [Operation.WRITE, Operation.CREATE]
        for name in transactional_ids:
            for what in (Operation.WRITE, Operation.DESCRIBE):
                rights[(AclResourceType.TRANSACTIONAL_ID, name), what] = None
        if idempotent:
            rights[(AclResourceType.CLUSTER, CLUSTER_NAME), Operation.IDEMPOTENT_WRITE] = None
    if consumer:
        on_topics.append(Operation.READ)
        for name in groups:
            rights[(AclResourceType.GROUP, name), Operation.READ] = None
    for name, what in product(topics, on_topics):
        rights[(AclResourceType.TOPIC, name), what] = None
    return list(rights)


def _pattern_of(kind: AclResourceType, code: PatternType) -> PatternType:
    return PatternType.LITERAL if kind is AclResourceType.CLUSTER else code


def _pattern(text: str, known: Sequence[PatternType]) -> PatternType:
    for code in known:
        if text.lower() == code.name.lower():
            return code
    names = ", ".join(code.name.lower() for code in known)
    raise Failure(f"{text} is no pattern type here; there are {names}", USAGE)


def _operations(texts: Iterable[str]) -> list[Operation]:
    known = {_title(Operation, code).lower(): code for code in Operation if code > Operation.ANY}
    found = []
    for text in texts:
        code = known.get(text.replace("_", "").replace("-", "").lower())
        if code is None:
            names = ", ".join(_title(Operation, code) for code in known.values())
            raise Failure(f"{text} is no operation; there are {names}", USAGE)
        found.append(code)
    return found or [Operation.ALL]


def _title(kind: type[IntEnum], code: int) -> str:
    return "".join(part.capitalize() for part in name_of(kind, code).split("_"))


def _line(entry: AclEntry) -> str:
    return " ".join(_row(entry).values())


def _row(entry: AclEntry) -> dict[str, str]:
    return {
        "resource": _title(AclResourceType, entry.resource_type),
        "name": entry.resource_name,
        "pattern": name_of(PatternType, entry.pattern_type).lower(),
        "principal": entry.principal,
        "host": entry.host,
        "operation": _title(Operation, entry.operation),
        "permission": _title(Permission, entry.permission_type),
    }


def _show(as_json: bool, entries: Sequence[AclEntry], none: str, title: str | None = None) -> None:
    rows = [_row(entry) for entry in entries]
    table = table_of(
        title if rows else none,
        "resource", "name", "pattern", "principal", "host", "operation", "permission",
    )  # fmt: skip
    for row in rows:
        table.add_row(*row.values())
    show(as_json, rows, table)
