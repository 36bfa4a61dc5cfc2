"""``barnabas zookeeper start zoo.cfg``: one server of ZooKeeper's client protocol, without Java."""

from __future__ import annotations

from pathlib import Path

import typer

from barnabas.host.process.end_request import EndRequest

app = typer.Typer(help="A server of ZooKeeper's protocol, without Java.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keeps `start` a command of its own while it is the only one."""


@app.command()
def start(
    file: Path = typer.Argument(
        help="A zoo.cfg, in the keys of Apache ZooKeeper. Keys that are not read are named."
    ),
) -> None:
    """Run one server in the foreground until SIGTERM, Ctrl-C or the end of its terminal.

    Alone, or, with lines `server.N=host:port:port` and a file ``myid``, as one of an ensemble.
    """
    end_request = EndRequest()
    from barnabas.host.zookeeper.server_process import run_server

    raise typer.Exit(run_server(str(file), end_request))
