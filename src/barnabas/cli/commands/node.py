"""``barnabas node``: one node in the foreground, as ``kafka-server-start`` would, and whether it is ready.

``start FILE`` restarts a node that ``barnabas up`` started and that was killed, by hand or by an init system;
the command records it in the cluster's directory. Where the line has no further options `cli.main` starts the
node without this module.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer

from barnabas.cli.connection.connect import JsonAnyway
from barnabas.cli.failure import Failure
from barnabas.cli.local.node_health import print_health
from barnabas.cli.local.node_start import start_node, start_node_of_environment

app = typer.Typer(help="One node of a cluster.", no_args_is_help=True)


@app.command()
def start(
    file: Path | None = typer.Argument(None, help="The node's server.properties."),
    from_environment: bool = typer.Option(
        False,
        "--from-environment",
        help="Take KAFKA_NODE_ID and so on, as Apache Kafka's image does.",
    ),
    end_with_input: bool = typer.Option(False, "--end-with-input", hidden=True),
) -> None:
    """Run one node until SIGTERM, Ctrl-C or the end of its terminal: a controlled shutdown."""
    if (file is None) != from_environment:
        raise Failure("give either FILE or --from-environment", 2)
    raise typer.Exit(
        start_node_of_environment()
        if file is None
        else start_node(file, end_with_input=end_with_input)
    )


@app.command()
def health(
    address: str = typer.Option(
        "",
        help="One of the node's metrics.listeners. Default: that of KAFKA_METRICS_LISTENERS, or"
        " http://127.0.0.1:9404.",
    ),
    as_json: JsonAnyway = False,
) -> None:
    """Print the answer of /health/ready; the exit status is 0 if the node is ready, and 1 if it is not."""
    raise typer.Exit(print_health(address, os.environ))
