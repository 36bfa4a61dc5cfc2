"""``--watch``: a command that shows a state shows it again and again.

On a terminal the new screen is written over the old one. Elsewhere each output follows the one before under
a line with the time; with ``--json`` each output is one line. A cluster that does not answer for a while is
part of what is watched: the sentence is shown and the next look is taken. A wrong usage ends the command.
"""

from __future__ import annotations

import inspect
import io
import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypeVar

import typer

from barnabas.cli.confirming import USAGE
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import replace_screen, say

F = TypeVar("F", bound=Callable[..., None])
INTERVAL_S = 2.0
Watch = typer.Option(False, "--watch", help="Show it again and again, until Ctrl-C.")
Interval = typer.Option(
    INTERVAL_S, "--interval", min=0.1, metavar="SECONDS", help="Between two looks of --watch."
)


class _Screen(io.StringIO):
    """Text as it would be written to the terminal, with its colours."""

    def isatty(self) -> bool:
        return True


def watched(command: F) -> F:
    """`command` with the options ``--watch`` and ``--interval``."""
    signature = inspect.signature(command, eval_str=True)
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, default, annotation in (("watch", Watch, bool), ("interval", Interval, float))
    ]

    @wraps(command)
    def run(*given: Any, watch: bool = False, interval: float = INTERVAL_S, **named: Any) -> None:
        if not watch:
            command(*given, **named)
            return
        as_json = bool(named.get("as_json"))
        while True:
            _show_once(lambda: command(*given, **named), as_json)
            time.sleep(interval)

    parameters = [*signature.parameters.values(), *options]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _show_once(look: Callable[[], None], as_json: bool) -> None:
    """Raises `Failure` for a wrong usage."""
    on_terminal = sys.stdout.isatty() and not as_json
    shown = _Screen() if on_terminal else io.StringIO()
    problem = ""
    try:
        with redirect_stdout(shown):
            look()
    except Failure as failure:
        if failure.status == USAGE:
            raise
        problem = str(failure)
    except typer.Exit:
        pass  # the status of one look is not that of the command
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if on_terminal:
        replace_screen(f"{now} UTC\n{shown.getvalue()}", problem)
    elif as_json:
        if shown.getvalue():
            say(json.dumps(json.loads(shown.getvalue())))
        if problem:
            say(problem, err=True)
    else:
        say(f"-- {now} UTC")
        say(problem or shown.getvalue().rstrip("\n"))
