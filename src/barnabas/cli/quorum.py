"""``barnabas quorum``: the metadata quorum as its leader sees it."""

from __future__ import annotations

import typer

from barnabas.cli import voters
from barnabas.cli.reaching import AsJson, Bootstrap, Data, cluster, show, table_of

app = typer.Typer(help="The quorum that holds the cluster's metadata.", no_args_is_help=True)

app.command("add-controller")(voters.add_controller)
app.command("remove-controller")(voters.remove_controller)
app.command("recover")(voters.recover_quorum)


@app.callback()
def group() -> None:
    """The quorum that holds the cluster's metadata."""


@app.command()
def describe(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Leader, epoch, high watermark, and how far each voter and observer is."""
    with cluster(bootstrap, data) as connected:
        quorum = connected.call(connected.admin.describe_quorum())
    title = (
        f"leader {quorum.leader_id}  epoch {quorum.leader_epoch}"
        f"  high watermark {quorum.high_watermark}"
    )
    end = max((replica.log_end_offset for replica in quorum.voters), default=0)
    table = table_of(title, "node", "role", "log end", "lag", right=("node", "log end", "lag"))
    for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for replica in replicas:
            shown = "leader" if replica.node_id == quorum.leader_id else role
            behind = max(end - replica.log_end_offset, 0)
            table.add_row(str(replica.node_id), shown, str(replica.log_end_offset), str(behind))
    show(as_json, quorum, table)
