"""``barnabas quotas``: what users, client ids and addresses may use. Source: KIP-546, KIP-599, KIP-612."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from barnabas.cli.confirming import USAGE, DryRun
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.watching import watched
from barnabas.client.quotas import Entity, QuotaFilter, alter_quotas, describe_quotas
from barnabas.config.group import ADDRESS_QUOTAS, CLIENT_QUOTAS
from barnabas.config.nearest import hint

app = typer.Typer(help="Describe and alter client quotas.", no_args_is_help=True)
UNITS = {"producer_byte_rate": "bytes/s", "consumer_byte_rate": "bytes/s",
         "request_percentage": "% of one thread", "controller_mutation_rate": "partitions/s",
         "connection_creation_rate": "connections/s"}  # fmt: skip
DEFAULT_TEXT = "<default>"

_User = typer.Option(None, "--user", metavar="NAME", help="A user: a principal without its type.")
_Client = typer.Option(None, "--client-id", metavar="ID", help="A client id.")
_Ip = typer.Option(None, "--ip", metavar="ADDRESS", help="An address.")
_UserDefault = typer.Option(False, "--user-default", help="Users that have no quota of their own.")
_ClientDefault = typer.Option(
    False, "--client-default", help="Client ids that have no quota of their own."
)
_IpDefault = typer.Option(False, "--ip-default", help="Addresses that have none of their own.")


@app.command()
@watched
def describe(
    user: str | None = _User,
    user_default: bool = _UserDefault,
    client_id: str | None = _Client,
    client_default: bool = _ClientDefault,
    ip: str | None = _Ip,
    ip_default: bool = _IpDefault,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Quotas that are set: all, or those that name what the options name."""
    entity = _entity(user, user_default, client_id, client_default, ip, ip_default)
    with cluster(bootstrap, data) as connected:
        found = connected.call(describe_quotas(connected.client, QuotaFilter(dict(entity))))
    rows = [
        {"entity": dict(named), "quota": key, "limit": limit, "unit": UNITS.get(key, "")}
        for named, limits in found.items()
        for key, limit in limits.items()
    ]
    if not rows and not as_json:
        say("no such quota is set")
        return
    _show(as_json, rows)


@app.command()
def alter(
    user: str | None = _User,
    user_default: bool = _UserDefault,
    client_id: str | None = _Client,
    client_default: bool = _ClientDefault,
    ip: str | None = _Ip,
    ip_default: bool = _IpDefault,
    add: list[str] = typer.Option(
        [],
        "--set",
        metavar="QUOTA=LIMIT",
        help=f"As producer_byte_rate=1000000: {', '.join(UNITS)}.",
    ),
    delete: list[str] = typer.Option([], "--delete", metavar="QUOTA", help="Remove a limit."),
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Set and remove limits of one entity; they hold from the next request on."""
    entity = _entity(user, user_default, client_id, client_default, ip, ip_default)
    if not entity:
        raise Failure("say whose: --user, --client-id or --ip, or one of their defaults", USAGE)
    changes: dict[str, float | None] = {}
    for text in add:
        key, value = _limit(entity, text)
        changes[key] = value
    for key in delete:
        _check_key(entity, key)
        changes[key] = None
    if not changes:
        raise Failure("say what: --set QUOTA=LIMIT or --delete QUOTA", USAGE)
    with cluster(bootstrap, data) as connected:
        connected.call(alter_quotas(connected.client, entity, changes, validate_only=dry_run))
    rows = [
        {"entity": dict(entity), "quota": key, "limit": limit, "unit": UNITS.get(key, "")}
        for key, limit in changes.items()
    ]
    _show(as_json, rows, "would be set" if dry_run else "set")


def _entity(
    user: str | None, user_default: bool, client_id: str | None, client_default: bool,
    ip: str | None, ip_default: bool,
) -> Entity:  # fmt: skip
    found: list[tuple[str, str | None]] = []
    for kind, option, name, is_default in (
        ("client-id", "client", client_id, client_default),
        ("ip", "ip", ip, ip_default),
        ("user", "user", user, user_default),
    ):
        if name is not None and is_default:
            raise Failure(f"give a name or --{option}-default, not both", USAGE)
        if name is not None or is_default:
            found.append((kind, name))
    if len(found) > 1 and any(kind == "ip" for kind, _ in found):
        raise Failure("an address goes with no user and no client id", USAGE)
    return tuple(found)


def _limit(entity: Entity, text: str) -> tuple[str, float]:
    key, equals, value = text.partition("=")
    if not equals:
        raise Failure(f"{text}: a limit is QUOTA=NUMBER", USAGE)
    _check_key(entity, key)
    try:
        return key, float(value)
    except ValueError:
        raise Failure(f"{value} is no number", USAGE) from None


def _check_key(entity: Entity, key: str) -> None:
    known = [*(ADDRESS_QUOTAS if entity[0][0] == "ip" else CLIENT_QUOTAS).defaults()]
    if key not in known:
        text = hint(key, known) or f"; there are {', '.join(known)}"
        raise Failure(f"{key} is no quota of this entity{text}", USAGE)


def _show(as_json: bool, rows: Sequence[dict[str, Any]], title: str | None = None) -> None:
    table = table_of(title, "ENTITY", "QUOTA", "LIMIT", "UNIT", right=["LIMIT"])
    for row in rows:
        named = " ".join(
            f"{kind} {DEFAULT_TEXT if name is None else name}"
            for kind, name in row["entity"].items()
        )
        limit = "removed" if row["limit"] is None else f"{row['limit']:,.10g}"
        table.add_row(named, row["quota"], limit, row["unit"])
    show(as_json, list(rows), table)
