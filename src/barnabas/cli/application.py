"""The command line as typer sees it: commands with their options."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from barnabas import __version__
from barnabas.cli.command_table import ANYWHERE, COMMANDS
from barnabas.cli.plain_text import say


def _anywhere(options: str, metavar: str, text: str) -> Any:
    """One of `ANYWHERE`, for the help and errors: `take_options` takes its value from the line."""
    names = options.split(", ")
    return typer.Option(
        "",
        *names,
        metavar=metavar,
        envvar=ANYWHERE[names[0]],
        help=f"{text}, anywhere in the line.",
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
            "--command-config, --config",
            "FILE",
            "The client's properties (security.protocol, sasl.*, ssl.*)",
        ),
        profile: str = _anywhere(
            "--profile", "NAME", "One of the profiles of that file (profile.NAME.KEY=VALUE)"
        ),
    ) -> None:
        if version:
            say(f"barnabas {__version__}")
            raise typer.Exit

    for name in names:
        module = import_module(COMMANDS[name])
        if hasattr(module, "command"):
            app.command(name)(module.command)
        else:
            app.add_typer(module.app, name=name)
    return app
