"""``barnabas users``: SCRAM users, listed, added and removed.

A password comes from a file, an environment variable or a prompt, is never an argument, and is never printed.
Source: KIP-554.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from barnabas.cli.confirming import USAGE, Yes, confirm
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.watching import watched
from barnabas.client.scram_users import (
    CODE_OF,
    ITERATIONS,
    ScramUser,
    list_users,
    remove_user,
    set_password,
)
from barnabas.security.scram import new_salt

app = typer.Typer(help="List, add and remove SCRAM users.", no_args_is_help=True)
DEFAULT_MECHANISM = "SCRAM-SHA-512"
_Mechanism = typer.Option(
    [], "--mechanism", metavar="NAME", help=f"{' or '.join(sorted(CODE_OF))}, once or for both."
)


@app.command("list")
@watched
def list_(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Users with their mechanisms; never a secret."""
    with cluster(bootstrap, data) as connected:
        found = connected.call(list_users(connected.client))
    if not found and not as_json:
        say("there are no SCRAM users")
        return
    _show(as_json, found)


@app.command()
def add(
    name: str = typer.Argument(metavar="NAME"),
    mechanism: list[str] = _Mechanism,
    iterations: int = typer.Option(ITERATIONS, help="Rounds of the hash: 4096 to 16384."),
    password_file: Path | None = typer.Option(
        None, "--password-file", metavar="FILE", help="Its first line is the password."
    ),
    password_env: str = typer.Option(
        "", "--password-env", metavar="VARIABLE", help="The environment variable that has it."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Add a user, or give one another password; it is asked for where no option says where it is."""
    mechanisms = _mechanisms(mechanism) or [DEFAULT_MECHANISM]
    password = read_password(name, password_file, password_env)
    with cluster(bootstrap, data) as connected:
        for scram in mechanisms:
            salt = new_salt(os.urandom)
            connected.call(set_password(connected.client, name, scram, password, salt, iterations))
    _show(as_json, [ScramUser(name, scram, iterations) for scram in mechanisms], "added")


@app.command()
def remove(
    name: str = typer.Argument(metavar="NAME"),
    mechanism: list[str] = _Mechanism,
    yes: bool = Yes,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Remove a user's credentials, all or those of some mechanisms. Its open connections stay."""
    wanted = _mechanisms(mechanism)
    with cluster(bootstrap, data) as connected:
        found = connected.call(list_users(connected.client, [name]))
        gone = [user for user in found if not wanted or user.mechanism in wanted]
        if not gone:
            raise Failure(f"{name} has no credential of {' or '.join(wanted)}")
        confirm(f"Remove {name}'s {' and '.join(user.mechanism for user in gone)}?", yes)
        names = [user.mechanism for user in gone]
        connected.call(remove_user(connected.client, name, names))
    _show(as_json, gone, "removed")


def read_password(name: str, file: Path | None, variable: str) -> str:
    """From a file, the environment or a prompt. Raises `Failure`."""
    if file is not None and variable:
        raise Failure("give --password-file or --password-env, not both", USAGE)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise Failure(f"{file} cannot be read: {error}", USAGE) from error
        password = lines[0] if lines else ""
    elif variable:
        password = os.environ.get(variable, "")
    elif sys.stdin.isatty():
        prompt = f"Password of {name}"
        password = typer.prompt(prompt, hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise Failure("no terminal can ask: give --password-file or --password-env", USAGE)
    if not password:
        where = file or (f"${variable}" if variable else "the answer")
        raise Failure(f"there is no password in {where}", USAGE)
    return str(password)


def _mechanisms(given: list[str]) -> list[str]:
    for name in given:
        if name.upper() not in CODE_OF:
            raise Failure(f"{name} is no mechanism; there are {', '.join(sorted(CODE_OF))}", USAGE)
    return [name.upper() for name in given]


def _show(as_json: bool, users: list[ScramUser], title: str | None = None) -> None:
    table = table_of(title, "USER", "MECHANISM", "ITERATIONS", right=["ITERATIONS"])
    for user in users:
        table.add_row(user.name, user.mechanism, str(user.iterations))
    show(as_json, [user._asdict() for user in users], table)
