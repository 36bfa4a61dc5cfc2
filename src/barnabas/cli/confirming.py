"""The question before what cannot be taken back; where no terminal can answer, ``--yes`` must be given."""

from __future__ import annotations

import sys

import typer

from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import visible

USAGE = 2
Yes = typer.Option(False, "--yes", "-y", help="Do not ask.")
DryRun = typer.Option(False, "--dry-run", help="Say what would be done, and do nothing.")


def confirm(question: str, yes: bool) -> None:
    """Return where the answer is yes. Raises `Failure`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(
            f"{question} It cannot be taken back, and there is no terminal to ask:"
            " give --yes to do it, or --dry-run to see what would be done",
            USAGE,
        )
    if not typer.confirm(visible(f"{question} It cannot be taken back."), err=True):
        raise Failure("nothing was changed")
