"""``barnabas node start FILE``: one node in the foreground, as ``kafka-server-start`` would.

This restarts a node that ``barnabas up`` started and that was killed, by hand or by an init system; the
command records it in the cluster's directory. Where the line has no options `cli.main` starts the node
without this module.
"""

from __future__ import annotations

from pathlib import Path

import typer

from barnabas.cli.local.node_start import start_node

app = typer.Typer(help="One node of a cluster.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keeps `start` a command of its own while it is the only one."""


@app.command()
def start(file: Path = typer.Argument(help="The node's server.properties.")) -> None:
    """Run one node until SIGTERM, Ctrl-C or the end of its terminal: a controlled shutdown."""
    raise typer.Exit(start_node(file))
