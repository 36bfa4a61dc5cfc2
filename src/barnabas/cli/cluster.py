"""``barnabas cluster``: the brokers, which of them takes part, and what was decided and refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import typer

from barnabas.cli.cluster_events import events
from barnabas.cli.reaching import AsJson, Bootstrap, Data, show, table_of
from barnabas.cli.reaching import cluster as reach
from barnabas.client.cluster import TopicView
from barnabas.metadata.partition_states import NEW, OFFLINE, ONLINE, state_of

app = typer.Typer(help="The cluster as a whole.", no_args_is_help=True)
app.command()(events)


@app.callback()
def group() -> None:
    """The cluster as a whole."""


@app.command()
def describe(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Id, active controller, brokers, and how many partitions are in which state."""
    with reach(bootstrap, data) as connected:
        described = connected.describe_cluster()
        states = states_of(connected.topics())
    counted = ", ".join(f"{count} {name}" for name, count in states.items() if count)
    title = (
        f"cluster {described.cluster_id}  controller {described.controller_id}"
        f"  partitions: {counted or 'none'}"
    )
    table = table_of(title, "broker", "address", "rack", "state", right=("broker",))
    for broker in described.brokers:
        state = "fenced" if broker.fenced else "active"
        table.add_row(
            str(broker.node_id), f"{broker.host}:{broker.port}", broker.rack or "-", state
        )
    show(as_json, {**asdict(described), "partitions": states}, table)


def states_of(topics: Iterable[TopicView]) -> dict[str, int]:
    """Partitions by state, and those that lack replicas in the ISR."""
    counts = dict.fromkeys((NEW, ONLINE, OFFLINE, "UnderReplicated"), 0)
    for topic in topics:
        for partition in topic.partitions.values():
            counts[state_of(partition.leader, partition.leader_epoch)] += 1
            counts["UnderReplicated"] += len(partition.isr) < len(partition.replicas)
    return counts
