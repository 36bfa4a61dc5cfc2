"""``barnabas tokens``: delegation tokens, created, listed, renewed and expired.

A token's secret is printed once, when the token is created, or goes into a client's properties file that
only its owner can read. Source: KIP-48.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table

from barnabas.cli.confirming import USAGE, Yes, confirm
from barnabas.cli.connection.connect import (
    AsJson,
    Bootstrap,
    Data,
    cluster,
    command_config,
    show,
    table_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.local.private_files import write_private
from barnabas.cli.moments import date_text, parse_duration
from barnabas.cli.plain_text import say
from barnabas.cli.watching import watched
from barnabas.client.delegation_tokens import (
    EXPIRE_NOW,
    DelegationToken,
    create_token,
    expire_token,
    list_tokens,
    renew_token,
)
from barnabas.config.properties import format_properties
from barnabas.host.client import Connected

app = typer.Typer(help="Create, list, renew and expire delegation tokens.", no_args_is_help=True)
_Id = typer.Argument(metavar="TOKEN-ID")


@app.command()
def create(
    owner: str = typer.Option(
        "", metavar="User:NAME", help="Of another user than the one who asks."
    ),
    renewer: list[str] = typer.Option(
        [], metavar="User:NAME", help="Who may renew and expire it besides its owner; any number."
    ),
    lifetime: str = typer.Option(
        "", metavar="DURATION", help="The longest it can be renewed: 7d, 12h, P1D."
    ),
    write: Path | None = typer.Option(
        None,
        "--write",
        metavar="FILE",
        help="A client's properties with the token, instead of printing it.",
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create a token. Its secret is shown this once, or written to a file that only you can read."""
    lifetime_ms = _duration(lifetime) if lifetime else -1
    for principal in [*renewer, *([owner] if owner else [])]:
        _check_principal(principal)
    with cluster(bootstrap, data) as connected:
        token = connected.call(
            create_token(
                connected.client, owner=owner or None, renewers=renewer, lifetime_ms=lifetime_ms
            )
        )
    if write is not None:
        properties = token.properties(command_config(data, bootstrap))
        try:
            write_private(write, format_properties(properties, f"Of {token.owner}, by a token."))
        except OSError as error:
            raise Failure(
                f"{write} cannot be written ({error.strerror}); expire token {token.token_id}"
            ) from error
    secret = {} if write is not None else {"hmac": token.password}
    show(as_json, _plain(token) | secret, _table([token], "created"))
    if secret and not as_json:
        say(f"HMAC {token.password}")


@app.command("list")
@watched
def list_(
    owner: list[str] = typer.Option([], metavar="User:NAME", help="Those of some owners."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Tokens that you own, may renew, or may see; never their secrets."""
    for principal in owner:
        _check_principal(principal)
    with cluster(bootstrap, data) as connected:
        found = connected.call(list_tokens(connected.client, owner or None))
    if not found and not as_json:
        say("there are no delegation tokens that you may see")
        return
    show(as_json, [_plain(token) for token in found], _table(found))


@app.command()
def renew(
    token_id: str = _Id,
    period: str = typer.Option(
        "",
        "--for",
        metavar="DURATION",
        help="From now on; as the cluster is configured by default.",
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make a token valid for longer, not beyond its longest lifetime."""
    period_ms = _duration(period) if period else -1
    with cluster(bootstrap, data) as connected:
        token = _find(connected, token_id)
        until_ms = connected.call(renew_token(connected.client, token.hmac, period_ms))
    _show_end(as_json, token_id, until_ms)


@app.command()
def expire(
    token_id: str = _Id,
    period: str = typer.Option(
        "", "--in", metavar="DURATION", help="Let it expire then, instead of at once."
    ),
    yes: bool = Yes,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """End a token. A connection made with it lasts until the end that it had then."""
    period_ms = _duration(period) if period else EXPIRE_NOW
    with cluster(bootstrap, data) as connected:
        token = _find(connected, token_id)
        confirm(f"Expire token {token_id} of {token.owner}?", yes)
        until_ms = connected.call(expire_token(connected.client, token.hmac, period_ms))
    _show_end(as_json, token_id, until_ms)


def _find(connected: Connected, token_id: str) -> DelegationToken:
    """Raises `Failure`."""
    for token in connected.call(list_tokens(connected.client)):
        if token.token_id == token_id:
            return token
    raise Failure(f"there is no delegation token {token_id} that you may see")


def _check_principal(text: str) -> None:
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise Failure(f"a principal is User:NAME, not {text!r}", USAGE)


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error


def _plain(token: DelegationToken) -> dict[str, object]:
    """Without its secret."""
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def _table(tokens: Sequence[DelegationToken], title: str | None = None) -> Table:
    table = table_of(
        title, "TOKEN-ID", "OWNER", "REQUESTER", "RENEWERS", "EXPIRES", "AT-THE-LATEST"
    )
    for token in tokens:
        table.add_row(
            token.token_id,
            token.owner,
            token.requester,
            ",".join(token.renewers) or "-",
            _date(token.expires_ms),
            _date(token.max_ms),
        )
    return table


def _show_end(as_json: bool, token_id: str, until_ms: int) -> None:
    table = table_of(None, "TOKEN-ID", "EXPIRES")
    table.add_row(token_id, _date(until_ms))
    show(as_json, {"token_id": token_id, "expires_ms": until_ms}, table)


def _date(at_ms: int) -> str:
    return date_text(at_ms, "%Y-%m-%dT%H:%M:%SZ")
