"""``barnabas up``: a cluster of node processes on this machine, for everyday use, tests and demos."""

from __future__ import annotations

from pathlib import Path

import typer

from barnabas.cli.feature_options import RELEASE, WANTED
from barnabas.cli.up.up_run import UpOptions, run_up

EPHEMERAL = typer.Option(
    False,
    "--ephemeral",
    help="Keep data in a temporary directory, which is removed at the end; end with standard input, too.",
)
PORT = typer.Option(
    None,
    min=1,
    max=65535,
    help="Where clients find node 1, with the other nodes at the next ports"
    " (default: ports that are free, kept from start to start).",
)
SECURE = typer.Option(
    False,
    "--secure",
    help="TLS, SASL and an authorizer on every node, with an authority, certificates and users for them;"
    " DIR/client.properties is what clients need. A secure cluster stays so.",
)
REMOVE_AT_END = typer.Option(None, hidden=True)
END_WITH_INPUT = typer.Option(False, "--end-with-input", hidden=True)
TELL_READY = typer.Option(None, "--tell-ready", hidden=True)
COORDINATORS = typer.Option(False, "--coordinators", hidden=True)
ZOOKEEPER_SERVERS = typer.Option(
    None, min=1, max=7, help="How many ZooKeeper servers to start (default: 1)."
)
ZOOKEEPER_SERVER = typer.Option(
    "", metavar="apache|barnabas", help="Whose to start (default: Apache's if Java is there)."
)


def command(
    nodes: int | None = typer.Option(
        None, min=1, max=100, help="How many (default: those in DIR, or 1; with ZooKeeper 3)."
    ),
    data: Path | None = typer.Option(None, help="The cluster's directory; made if missing."),
    ephemeral: bool = EPHEMERAL,
    port: int | None = PORT,
    setting: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="A property for every node; may be repeated."
    ),
    racks: str = typer.Option(
        "", metavar="RACK,...", help="Racks of the nodes, dealt out in turn; sets broker.rack."
    ),
    secure: bool = SECURE,
    release: str | None = RELEASE,
    feature: list[str] = WANTED,
    restart: bool = typer.Option(False, help="Start a node again that died."),
    console: bool = typer.Option(
        False, "--console", help="Serve pages about it in a browser, too."
    ),
    replace_lost: bool = typer.Option(
        False, "--replace-lost", help="Let a node whose directory was lost begin with an empty one."
    ),
    coordination: str = typer.Option(
        "", metavar="kraft|zookeeper", help="Who coordinates a new cluster (default: kraft)."
    ),
    zookeeper: str = typer.Option(
        "", metavar="HOST:PORT[/CHROOT]", help="The ZooKeeper ensemble to use (default: its own)."
    ),
    zookeeper_server: str = ZOOKEEPER_SERVER,
    zookeeper_servers: int | None = ZOOKEEPER_SERVERS,
    remove_at_end: Path | None = REMOVE_AT_END,
    end_with_input: bool = END_WITH_INPUT,
    tell_ready: int | None = TELL_READY,
    coordinators: bool = COORDINATORS,
) -> None:
    """Start a cluster on loopback; Ctrl-C or SIGTERM stops it cleanly.

    Prints `bootstrap: host:port,...` once the cluster takes writes. DIR/cluster.json says what runs.
    """
    given = UpOptions(
        nodes, data, ephemeral, port, setting, racks, secure, release, feature, restart, console,
        replace_lost, coordination, zookeeper, zookeeper_server, zookeeper_servers, remove_at_end,
        end_with_input, tell_ready, coordinators,
    )  # fmt: skip
    raise typer.Exit(run_up(given))
