"""The entry point ``barnabas``: one table of commands, each loaded only when it is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from barnabas import __version__
from barnabas.cli.connection.variables import COMMAND_CONFIG, PROFILE
from barnabas.cli.failure import Failure
from barnabas.host.standard_streams import fill_standard_streams

ANYWHERE = {"--command-config": COMMAND_CONFIG, "--profile": PROFILE}
"""Options that hold for every command that asks a cluster, and may be anywhere in the line → the variable
that takes their value."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells count."""
COMMANDS: dict[str, str] = {
    "up": "barnabas.cli.commands.up",
    "node": "barnabas.cli.commands.node",
    "storage": "barnabas.cli.commands.storage",
    "topics": "barnabas.cli.commands.topics",
    "configs": "barnabas.cli.commands.configs",
    "produce": "barnabas.cli.commands.produce",
    "consume": "barnabas.cli.commands.consume",
    "groups": "barnabas.cli.commands.groups",
    "transactions": "barnabas.cli.commands.transactions",
    "acls": "barnabas.cli.commands.acls",
    "users": "barnabas.cli.commands.users",
    "tokens": "barnabas.cli.commands.tokens",
    "quotas": "barnabas.cli.commands.quotas",
    "certificates": "barnabas.cli.commands.certificates",
    "leaders": "barnabas.cli.commands.leaders",
    "reassign": "barnabas.cli.commands.reassign",
    "cluster": "barnabas.cli.commands.cluster",
    "features": "barnabas.cli.commands.features",
    "quorum": "barnabas.cli.commands.quorum",
    "metadata": "barnabas.cli.commands.metadata",
    "migrate": "barnabas.cli.commands.migrate",
    "log": "barnabas.cli.commands.log",
    "pipeline": "barnabas.cli.commands.pipeline",
}
"""Name to module, in the order of the help."""


def _anywhere(option: str, metavar: str, text: str) -> Any:
    """One of `ANYWHERE`, for the help and errors: `take_options` takes its value from the line."""
    return typer.Option(
        "", option, metavar=metavar, envvar=ANYWHERE[option], help=f"{text}, anywhere in the line."
    )


def build(names: Sequence[str]) -> typer.Typer:
    """The application with these commands."""
    app = typer.Typer(
        name="barnabas",
        help="A replicated, Kafka-wire-compatible event log.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback(invoke_without_command=True)
    def top(
        version: bool = typer.Option(False, "--version", help="Print the version."),
        command_config: str = _anywhere(
            "--command-config", "FILE", "The client's properties (security.protocol, sasl.*, ssl.*)"
        ),
        profile: str = _anywhere(
            "--profile", "NAME", "One of the profiles of that file (profile.NAME.KEY=VALUE)"
        ),
    ) -> None:
        if version:
            print(f"barnabas {__version__}")
            raise typer.Exit

    for name in names:
        module = import_module(COMMANDS[name])
        if hasattr(module, "command"):
            app.command(name)(module.command)
        else:
            app.add_typer(module.app, name=name)
    return app


def take_options(given: Sequence[str]) -> list[str]:
    """The arguments without those of `ANYWHERE`, whose values become variables."""
    left = []
    words = iter(given)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ANYWHERE:
            left.append(word)
            continue
        value = value if equals else next(words, "")
        if not value:
            left.append(word)  # typer says what is missing
            continue
        os.environ[ANYWHERE[name]] = value
    return left


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. Also the console script, which exits with what it returns."""
    fill_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    given = take_options(given)
    wanted = next((word for word in given if not word.startswith("-")), "")
    names = [wanted] if wanted in COMMANDS else list(COMMANDS)
    try:
        build(names)(given, prog_name="barnabas")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return failure.status
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:  # while the command was being loaded
        return INTERRUPTED
    return 0
