"""``barnabas profiles``: clusters by name, with their addresses and logins, in a file of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, answer, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.profiles.named import KEY, names_of, of_profile
from barnabas.cli.profiles.own_file import (
    login_of,
    own_file,
    read_own,
    using,
    with_profile,
    without_profile,
    write_own,
)
from barnabas.config.definition import without_user
from barnabas.config.properties import parse_properties
from barnabas.host.client import parse_bootstrap

app = typer.Typer(help="Clusters by name, for --profile NAME.", no_args_is_help=True)
BOOTSTRAP, PROTOCOL, REGISTRY = "bootstrap.servers", "security.protocol", "schema.registry.url"


@app.command()
def create(
    name: str = typer.Argument(...),
    bootstrap: str | None = typer.Option(
        None, "--bootstrap", "--bootstrap-server", "-b", metavar="HOST:PORT,..."
    ),
    properties: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Begin with these client properties, as --command-config has them.",
    ),
    protocol: str | None = typer.Option(
        None, "--protocol", help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."
    ),
    user: str | None = typer.Option(None, help="Sign in as this user."),
    mechanism: str = typer.Option("SCRAM-SHA-512", help="Also PLAIN, SCRAM-SHA-256."),
    password_file: Path | None = typer.Option(
        None, metavar="FILE", help="The password is the content of this file; else it is asked for."
    ),
    password_env: str | None = typer.Option(
        None, metavar="VARIABLE", help="It is in this variable."
    ),
    ca: Path | None = typer.Option(
        None, "--ca", metavar="FILE", help="PEM: who signs the brokers."
    ),
    registry: str | None = typer.Option(None, "--schema-registry", metavar="URL"),
    given: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="May be repeated."),
    use_it: bool = typer.Option(False, "--use", help="Commands that name no profile use it."),
    as_json: AsJson = False,
) -> None:
    """Write a profile; one of this name is replaced. A password stays where it is: the profile names its
    file or variable."""
    try:
        found = {} if properties is None else parse_properties(properties.read_text("utf-8"))
        options = {BOOTSTRAP: bootstrap, PROTOCOL: protocol, REGISTRY: registry}
        found |= {key: value for key, value in options.items() if value is not None}
        if ca is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca.absolute())}
        if user is not None:
            found |= login_of(user, mechanism, password_file, password_env)
            found.setdefault(PROTOCOL, "SASL_PLAINTEXT" if ca is None else "SASL_SSL")
        elif password_file is not None or password_env is not None:
            raise ValueError("a password needs --user")
        elif ca is not None:
            found.setdefault(PROTOCOL, "SSL")
        for item in given:
            key, equals, value = item.partition("=")
            if not equals or not key:
                raise ValueError(f"--set takes KEY=VALUE, not {item!r}")
            found[key] = value
        if BOOTSTRAP not in found:
            raise ValueError("say where the cluster is: --bootstrap HOST:PORT")
        parse_bootstrap(found[BOOTSTRAP])
        whole = with_profile(read_own(), name, found)
        write_own(using(whole, name) if use_it else whole)
    except (OSError, ValueError) as error:
        raise Failure(str(error), USAGE) from error
    found = {"name": name, "file": str(own_file())}
    answer(as_json, found, f"profile {name} is in {own_file()}")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Every profile with its cluster; never a secret."""
    properties = _read()
    rows: list[dict[str, Any]] = []
    table = table_of(None, "profile", "bootstrap", "protocol", "registry", "used")
    for name in names_of(properties):
        found = of_profile(properties, name)
        row = {
            "name": name,
            "bootstrap": found.get(BOOTSTRAP, ""),
            "security_protocol": found.get(PROTOCOL, "PLAINTEXT"),
            "schema_registry": without_user(found.get(REGISTRY, "")),
            "is_used": properties.get(KEY) == name,
        }
        rows.append(row)
        *cells, is_used = row.values()
        table.add_row(*map(str, cells), "yes" if is_used else "")
    show(as_json, rows, table)


@app.command()
def use(name: str = typer.Argument(...), as_json: AsJson = False) -> None:
    """Have commands that name no cluster and no profile use this one."""
    _change(using, name)
    answer(
        as_json,
        {"name": name},
        f"commands use profile {name} where nothing else says where the cluster is",
    )


@app.command()
def delete(name: str = typer.Argument(...), as_json: AsJson = False) -> None:
    """Delete a profile; the files that it names stay."""
    _change(without_profile, name)
    answer(as_json, {"name": name}, f"profile {name} is deleted")


def _read() -> dict[str, str]:
    try:
        return read_own()
    except (OSError, ValueError) as error:
        raise Failure(f"{own_file()} cannot be read: {error}", USAGE) from error


def _change(change: Any, name: str) -> None:
    properties = _read()
    try:
        write_own(change(properties, name))
    except (OSError, ValueError) as error:
        raise Failure(str(error), USAGE) from error
