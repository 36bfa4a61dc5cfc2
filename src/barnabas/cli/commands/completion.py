"""``barnabas completion``: scripts for shells, and the names that they ask for."""

from __future__ import annotations

import re

import typer

from barnabas.cli.connection.connect import USAGE, Bootstrap, Data, cluster
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.profiles.named import names_of
from barnabas.cli.profiles.own_file import read_own
from barnabas.cli.shell_completion import GROUPS, KINDS, PROFILES, script

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+/-]*")
"""Names that a shell takes as they are. Any client may name a group ``$(...)``, which bash would run; a name
that looks like an option is none either."""

app = typer.Typer(help="Completion by TAB in bash, zsh and fish.", no_args_is_help=True)


@app.command()
def bash() -> None:
    """Print the script for bash: source <(barnabas completion bash)."""
    say(script("bash"))


@app.command()
def zsh() -> None:
    """Print the script for zsh: source <(barnabas completion zsh), behind compinit."""
    say(script("zsh"))


@app.command()
def fish() -> None:
    """Print the script for fish: barnabas completion fish | source."""
    say(script("fish"))


@app.command(hidden=True)
def words(kind: str = typer.Argument(...), bootstrap: Bootstrap = None, data: Data = None) -> None:
    """Print names for a script, one a line; nothing where the cluster does not answer."""
    if kind not in KINDS:
        raise Failure(f"names are those of {', '.join(KINDS)}, not {kind!r}", USAGE)
    if kind == PROFILES:
        names = names_of(read_own())
    else:
        with cluster(bootstrap, data) as connected:
            if kind == GROUPS:
                names = [group.group_id for group in connected.call(connected.admin.list_groups())]
            else:
                names = [topic.name for topic in connected.topics() if not topic.internal]
    for name in sorted(names):
        if PLAIN_NAME.fullmatch(name):
            say(name)
