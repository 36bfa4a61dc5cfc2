"""``barnabas certificates``: lists the certificates of a cluster's listeners, checks certificate files, and
renews the certificates of an ``up --secure``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from barnabas.cli.commands.users import read_password
from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    cluster,
    show,
    table_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.local.local_security import CERTIFICATES_DAYS, LocalSecurity
from barnabas.cli.plain_text import say
from barnabas.cli.watching import watched
from barnabas.host.client import parse_bootstrap
from barnabas.types import Endpoint

if TYPE_CHECKING:
    from cryptography import x509

    from barnabas.cli.certificates.files import FileFinding

app = typer.Typer(help="Certificates: list, check, renew.", no_args_is_help=True)
DAYS_MAX = 36_500
UNKNOWN_NODE = "-"
"""Shown if it is unknown which node listens."""


@app.command("list")
@watched
def list_(
    at: list[str] = typer.Option(
        [], "--at", metavar="HOST:PORT", help="Look at this listener only; repeat for several."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Certificates of the brokers' and controllers' listeners: subject, issuer, names, dates, fingerprint.
    The rows below a certificate are its chain, as far as the listener presents it."""
    _needs_library()
    from barnabas.cli.certificates.presented import presented

    found = _given(at) if at else _listeners(bootstrap, data)
    rows: list[dict[str, Any]] = []
    failures = []
    for node, listener, endpoint in found:
        try:
            own, *issuers = map(_described, presented(endpoint))
        except Failure as failure:
            failures.append(str(failure))
            continue
        where = {"node": node, "listener": listener, "address": str(endpoint)}
        rows.append({**where, **own, "chain": issuers})
    columns = ("node", "listener", "address", "subject", "issuer", "names", "not before", "not after",
               "days", "fingerprint")  # fmt: skip
    table = table_of(None, *columns, right=("days",))
    for row in rows:
        for certificate in (row, *row["chain"]):
            table.add_row(*(_cell(certificate.get(name.replace(" ", "_"), "")) for name in columns))
    show(as_json, rows, table)
    for failure_text in failures:
        say(failure_text, err=True)
    if failures and not rows:
        raise typer.Exit(1)


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _described(certificate: x509.Certificate) -> dict[str, object]:
    from barnabas.cli.certificates.presented import fingerprint, names_of, seconds_left
    from barnabas.security.certificate_watch import DAY_S

    return {
        "subject": certificate.subject.rfc4514_string(),
        "issuer": certificate.issuer.rfc4514_string(),
        "names": names_of(certificate),
        "not_before": certificate.not_valid_before_utc.isoformat(),
        "not_after": certificate.not_valid_after_utc.isoformat(),
        "days": seconds_left(certificate) // DAY_S,
        "fingerprint": fingerprint(certificate),
    }


def _given(at: list[str]) -> list[tuple[str, str, Endpoint]]:
    try:
        return [
            (UNKNOWN_NODE, UNKNOWN_NODE, endpoint)
            for text in at
            for endpoint in parse_bootstrap(text)
        ]
    except ValueError as error:
        raise Failure(str(error), USAGE) from error


def _listeners(bootstrap: str | None, data: Path | None) -> list[tuple[str, str, Endpoint]]:
    """(node, listener name, endpoint) of the brokers' advertised listeners and of the controllers."""
    from barnabas.cli.certificates.days_left import controllers_of

    with cluster(bootstrap, data) as connected:
        brokers = [
            (str(broker.node_id), "broker's", Endpoint(broker.host, broker.port))
            for broker in connected.describe_cluster().brokers
            if not broker.fenced
        ]
        controllers = [(str(node), name, at) for node, name, at in controllers_of(connected)]
    return brokers + controllers


@app.command()
def check(
    files: list[Path] = typer.Argument(metavar="FILE...", help="PEM or PKCS12."),
    name: list[str] = typer.Option(
        [], "--name", metavar="HOST", help="A name or address that clients connect by."
    ),
    authority: list[Path] = typer.Option(
        [], "--ca", metavar="FILE", help="The certificates that the other side trusts (PEM)."
    ),
    purpose: str = typer.Option("server", "--purpose", help="server or client."),
    password_file: Path | None = typer.Option(
        None, "--password-file", metavar="FILE", help="Its first line opens the key or store."
    ),
    password_env: str = typer.Option(
        "", "--password-env", metavar="VARIABLE", help="The environment variable that has it."
    ),
    as_json: AsJson = False,
) -> None:
    """Check that a key fits its certificate, that the chain is complete, and names, purpose, dates and key
    strength. Exit status 1 if a check fails."""
    _needs_library()
    from barnabas.cli.certificates.files import PROBLEM, PURPOSES, check_bundle, read_files

    if purpose not in PURPOSES:
        raise Failure(f"--purpose is {' or '.join(PURPOSES)}, not {purpose}", USAGE)
    password = ""
    if password_file is not None or password_env:
        password = read_password("the key", password_file, password_env)
    bundle = read_files(files, password)
    trusted = read_files(authority, "").certificates
    try:
        found = check_bundle(bundle, names=name, purpose=purpose, trusted=trusted)
    except ValueError as error:
        raise Failure(f"a certificate has a part that cannot be read: {error}") from error
    _show_findings(as_json, found)
    if any(finding.result == PROBLEM for finding in found):
        raise typer.Exit(1)


def _show_findings(as_json: bool, found: list[FileFinding]) -> None:
    table = table_of(None, "check", "result", "says")
    for finding in found:
        table.add_row(*finding)
    show(as_json, [finding._asdict() for finding in found], table)


@app.command()
def renew(
    node: list[int] = typer.Option([], "--node", "-n", help="This node only; repeat for several."),
    days: int = typer.Option(
        CERTIFICATES_DAYS, "--days", min=1, max=DAYS_MAX, help="Days until they expire."
    ),
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make new keys and certificates for the nodes of an `up --secure`, signed by its local authority.
    Running nodes use them for new connections; open connections stay."""
    _needs_library()
    security = LocalSecurity(data or Path())
    if not security.is_there:
        raise Failure(f"{data or Path()} has no cluster that `barnabas up --secure` made", USAGE)
    known = security.nodes()
    unknown = [node_id for node_id in node if node_id not in known]
    if unknown:
        listed = ", ".join(map(str, known))
        raise Failure(f"node {unknown[0]} has no certificate here; nodes {listed} have", USAGE)
    wanted = node or known
    is_new = security.renew(wanted, days)
    table = table_of(None, "node", "days", right=("node", "days"))
    for node_id in wanted:
        table.add_row(str(node_id), str(days))
    show(as_json, {"nodes": wanted, "days": days, "new_authority": is_new}, table)
    if is_new:
        say("there is a new authority: clients have to read security/ca.pem again", err=True)


def _needs_library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise Failure("this needs a package: pip install 'barnabas[security]'") from error
