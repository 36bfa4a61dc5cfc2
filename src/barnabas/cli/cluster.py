"""``barnabas cluster``: the brokers, which of them takes part, and what was decided and refused."""

from __future__ import annotations

import typer

from barnabas.cli.cluster_events import events
from barnabas.cli.reaching import AsJson, Bootstrap, Data, show, table_of
from barnabas.cli.reaching import cluster as reach

app = typer.Typer(help="The cluster as a whole.", no_args_is_help=True)
app.command()(events)


@app.callback()
def group() -> None:
    """The cluster as a whole."""


@app.command()
def describe(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Id, active controller, brokers."""
    with reach(bootstrap, data) as connected:
        described = connected.describe_cluster()
    title = f"cluster {described.cluster_id}  controller {described.controller_id}"
    table = table_of(title, "broker", "address", "rack", "state", right=("broker",))
    for broker in described.brokers:
        state = "fenced" if broker.fenced else "active"
        table.add_row(
            str(broker.node_id), f"{broker.host}:{broker.port}", broker.rack or "-", state
        )
    show(as_json, described, table)
