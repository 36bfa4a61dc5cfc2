"""``barnabas cluster``: the brokers, which of them takes part, what was decided and refused, what the active
controller and the brokers count, and forgetting a broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import typer

from barnabas.cli.certificates.days_left import certificates_of, say_what_ends
from barnabas.cli.commands.balance import balance
from barnabas.cli.commands.client_metrics import client_metrics
from barnabas.cli.commands.cluster_events import events
from barnabas.cli.connection.connect import (
    CONTROLLERS,
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    answer,
    show,
    table_of,
)
from barnabas.cli.connection.connect import cluster as reach
from barnabas.cli.connection.quorum_client import Controllers, QuorumClient, quorum_client
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import counted, say
from barnabas.cli.watching import watched
from barnabas.client.feature_levels import unregister_broker, unregister_controller
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.metadata.image.partition_states import NEW, OFFLINE, ONLINE, state_of
from barnabas.types import Endpoint
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import (
    ControllerMetric,
    DescribeClusterResponse,
)

REQUEST_TIMEOUT_MS = 10_000.0
QUORUM_MS = 5_000.0
"""How long the quorum may look for a leader before a description says that there is none."""

app = typer.Typer(help="The cluster as a whole.", no_args_is_help=True)
app.command()(events)
app.command()(client_metrics)
app.command()(balance)


@app.callback()
def group() -> None:
    """The cluster as a whole."""


@app.command()
@watched
def describe(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Id, active controller, brokers, and how many partitions are in which state."""
    with reach(bootstrap, data) as connected:
        described = connected.describe_cluster()
        active = active_controller(connected, described.controller_id)
        states = states_of(connected.topics())
        certificates = certificates_of(connected, described.brokers)
    counted = ", ".join(f"{count} {name}" for name, count in states.items() if count)
    title = (
        f"cluster {described.cluster_id}  controller {'none' if active is None else active}"
        f"  partitions: {counted or 'none'}"
    )
    shown = ("certificates",) if certificates else ()
    table = table_of(title, "broker", "address", "rack", "state", *shown, right=("broker",))
    for broker in described.brokers:
        state = "fenced" if broker.fenced else "active"
        address = str(Endpoint(broker.host, broker.port))
        row = (str(broker.node_id), address, broker.rack or "-", state)
        ends = [
            f"{certificate}"
            for certificate in certificates
            if certificate.node_id == broker.node_id
        ]
        table.add_row(*row, *([", ".join(ends) or "-"] if shown else []))
    reported = {**asdict(described), "controller_id": active, "partitions": states}
    if certificates:
        reported["certificates"] = [certificate._asdict() for certificate in certificates]
    show(as_json, reported, table)
    say_what_ends(certificates)


def active_controller(connected: Connected, named: int) -> int | None:
    """The quorum's leader, as DescribeQuorum says: a broker's DescribeCluster names any broker that takes
    requests for the controller. Where there is no quorum the broker that is `named` is the controller. None
    while there is none."""
    try:
        described = connected.call(connected.admin.describe_quorum(timeout_ms=QUORUM_MS))
    except (ChannelError, KafkaError) as error:
        has_quorum = not (isinstance(error, ChannelError) and error.kind == "unsupported")
        return None if has_quorum or named < 0 else named
    return described.leader_id if described.leader_id >= 0 else None


@app.command()
@watched
def metrics(
    broker: int | None = typer.Option(
        None, "--broker", "-n", metavar="ID", help="What this broker counts."
    ),
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the counts of the active controller, under Kafka's names: brokers by state, partitions by
    state, leaders that are not the preferred ones, unclean elections. With --broker what that broker
    counts: groups and transactions by state, rebalances, time-outs, markers that wait, how long
    coordinators took to load."""
    if broker is None:
        with quorum_client(bootstrap, controllers, data) as client:
            metrics = _metrics_of_controller(client)
    elif controllers is not None:
        raise Failure(
            "controllers have no metrics of a broker: leave --bootstrap-controller", USAGE
        )
    else:
        with reach(bootstrap, data) as connected:
            metrics = list(_metrics_of(connected, broker).metrics)
    if not metrics:
        who = "the active controller" if broker is None else f"broker {broker}"
        raise Failure(f"{who} reports no metrics: it is another program's")
    reported = {metric.name: metric.value for metric in metrics}
    table = table_of(None, "metric", "value", right=("value",))
    for name, value in reported.items():
        table.add_row(name, str(value))
    show(as_json, reported, table)


def _metrics_of_controller(client: QuorumClient) -> list[ControllerMetric]:
    """The metrics of the quorum's leader; in ZooKeeper mode, of the broker that is the controller,
    without what it counts as a broker."""
    try:
        described = client.describe()
    except ChannelError as error:
        if error.kind != "unsupported":
            raise
        connected = client.connected
        named = connected.describe_cluster().controller_id
        if named < 0:
            raise Failure("there is no controller at present") from None
        response = _metrics_of(connected, named)
        return [one for one in response.metrics if ".controller:" in one.name]
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS, include_metrics=True)
    answer: DescribeClusterResponse = client.ask_leader(described, request, REQUEST_TIMEOUT_MS)
    return list(answer.metrics)


def _metrics_of(connected: Connected, broker: int) -> DescribeClusterResponse:
    if broker not in connected.client.cluster.brokers:
        alive = ", ".join(map(str, sorted(connected.client.cluster.brokers)))
        raise Failure(f"there is no broker {broker}: {alive} are alive")
    request = DescribeClusterRequest(include_metrics=True)
    response: DescribeClusterResponse = connected.call(
        connected.client.ask_node(broker, request, timeout_ms=REQUEST_TIMEOUT_MS)
    )
    return response


@app.command()
def unregister(
    broker: int = typer.Option(..., "--id", "-i", help="The broker that is gone for good."),
    force: bool = typer.Option(False, "--force", help="Also where it is alive."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Have the cluster forget a broker. It leaves every ISR, but its replicas stay assigned to it: move them
    first (`barnabas reassign plan --drain`)."""
    with reach(bootstrap, data) as connected:
        known = {found.node_id: found for found in connected.describe_cluster().brokers}
        if broker in known and not known[broker].fenced and not force:
            raise Failure(
                f"broker {broker} is active, and would register again: stop it first (or --force)"
            )
        assigned = sum(
            broker in partition.replicas
            for topic in connected.topics()
            for partition in topic.partitions.values()
        )
        connected.call(unregister_broker(connected.client, broker))
    answer(
        as_json,
        {"broker": broker, "assigned_partitions": assigned},
        f"broker {broker} is not registered any more",
    )
    if assigned:
        say(f"it still has replicas of {counted(assigned, 'partition')} assigned", err=True)


@app.command("unregister-controller")
def forget_controller(
    controller: int = typer.Option(..., "--id", "-i", help="The controller that is gone for good."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Have the cluster forget a controller that is gone. The feature levels it supported no longer bind the
    cluster. A voter stays one until `barnabas quorum remove-controller`. A controller that runs registers
    again."""
    with reach(bootstrap, data) as connected:
        connected.call(unregister_controller(connected.client, controller))
    answer(
        as_json,
        {"controller": controller},
        f"controller {controller} is not registered any more",
    )


def states_of(topics: Iterable[TopicMetadata]) -> dict[str, int]:
    """Partitions by state, and those that lack replicas in the ISR."""
    counts = dict.fromkeys((NEW, ONLINE, OFFLINE, "UnderReplicated"), 0)
    for topic in topics:
        for partition in topic.partitions.values():
            counts[state_of(partition.leader, partition.leader_epoch)] += 1
            counts["UnderReplicated"] += len(partition.isr) < len(partition.replicas)
    return counts
