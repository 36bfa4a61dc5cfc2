"""``barnabas groups``: list and describe groups of every kind, with how far behind they are;
`commands.group_changes` changes them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from barnabas.cli.commands import group_changes
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.measures.group_lag import (
    GroupProgress,
    assigned_to,
    described_groups,
    progress,
    progress_of,
)
from barnabas.cli.measures.share_deliveries import deliveries_of
from barnabas.cli.measures.units import seconds_text
from barnabas.cli.watching import watched
from barnabas.client.groups import CLASSIC, SHARE, STREAMS, DescribedMember, GroupDescription
from barnabas.host.client import Connected
from barnabas.types import TopicPartition, by_topic

app = typer.Typer(
    help="List, describe, move and delete groups of every kind.", no_args_is_help=True
)


Types = Annotated[
    list[str],
    typer.Option("--type", help="Only groups of this type: classic, consumer, share or streams."),
]
States = Annotated[
    list[str], typer.Option("--state", help="Only groups in this state: Stable, Empty, ...")
]


@app.command("list")
@watched
def list_(
    types: Types = [],  # noqa: B006 - typer's form
    states: States = [],  # noqa: B006
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Every group of every broker."""
    with cluster(bootstrap, data) as connected:
        groups = connected.call(connected.admin.list_groups(types, states))
    table = table_of(None, "group", "state", "protocol", "type")
    for group in groups:
        table.add_row(group.group_id, group.state, group.protocol_type, group.type)
    show(as_json, groups, table)


@app.command()
@watched
def describe(
    group: str = typer.Argument(...),
    members: bool = typer.Option(False, "--members", help="Its members, and what each has."),
    offsets: bool = typer.Option(
        False, "--offsets", help="Committed offsets and lag. The default."
    ),
    state: bool = typer.Option(False, "--state", help="State, epochs and assignor."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Members, what each reads, committed offsets and the lag behind the end. Of a share group what is
    committed is its start offset; the records that members hold now and how often records were delivered come
    from the leaders of the partitions that members fetch."""
    with cluster(bootstrap, data) as connected:
        described = connected.call(connected.admin.describe_group(group))
        rows = (
            progress(connected, described, ages=True) if offsets or not (members or state) else []
        )
        if described.type == SHARE:
            _add_deliveries(connected, described, rows)
    tables = []
    if state:
        tables.append(_state_table(described))
    if members:
        tables.append(_members_table(described))
    if offsets or not tables:
        tables.append(_offsets_table(described, rows))
    if as_json:
        show(True, _whole(described, rows), tables[0])
        return
    for table in tables:
        show(False, None, table)


@app.command()
@watched
def lag(
    groups: list[str] = typer.Argument(None, metavar="[GROUP...]", help="Default: every group."),
    partitions: bool = typer.Option(
        False, "--partitions", help="A row for each partition; so it is where groups are named."
    ),
    types: Types = [],  # noqa: B006
    states: States = [],  # noqa: B006
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """How far groups are behind, in records and in seconds: the age of the first record that a group has not
    committed, read from the log. A share group's records count from its start offset."""
    with cluster(bootstrap, data) as connected:
        names = groups or [
            found.group_id for found in connected.call(connected.admin.list_groups(types, states))
        ]
        described = described_groups(connected, names)
        for found in described.values():
            if isinstance(found, Exception) and groups:
                raise found
        known = [found for found in described.values() if isinstance(found, GroupDescription)]
        if len(groups or ()) == 1 and known[0].state == "Dead":
            raise Failure(f"there is no group {names[0]}")
        rows = progress_of(connected, known)
    table = _lag_by_partition(rows) if partitions or groups else _lag_by_group(rows)
    show(as_json, [row.as_dict() for row in rows], table)


def _lag_by_group(groups: list[GroupProgress]) -> Table:
    table = table_of(
        None, "group", "type", "state", "members", "partitions", "lag", "behind",
        right=("members", "partitions", "lag", "behind"),
    )  # fmt: skip
    for group in groups:
        table.add_row(
            group.described.group_id, group.described.type, group.described.state,
            str(len(group.described.members)), str(len(group.rows)),
            str(group.lag) if group.error is None else str(group.error),
            seconds_text(group.seconds),
        )  # fmt: skip
    return table


def _lag_by_partition(groups: list[GroupProgress]) -> Table:
    table = table_of(
        None, "group", "topic", "partition", "committed", "end", "lag", "behind", "member", "client",
        right=("partition", "committed", "end", "lag", "behind"),
    )  # fmt: skip
    for group in groups:
        for row in group.rows:
            table.add_row(group.described.group_id, *_cells(row.as_dict()))
    return table


def _whole(described: GroupDescription, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "group": described.group_id,
        "state": described.state,
        "type": described.type,
        "protocol": described.protocol,
        "epoch": described.epoch,
        "assignment_epoch": described.assignment_epoch,
        "members": [
            {
                "member_id": m.member_id,
                "instance_id": m.instance_id,
                "client_id": m.client_id,
                "host": m.client_host,
                "protocol": m.kind,
                "epoch": m.epoch,
                "assigned": assigned_to(described, m),
                "target": m.target,
                **({"tasks": m.tasks, "target_tasks": m.target_tasks} if m.kind == STREAMS else {}),
            }
            for m in described.members
        ],
        "partitions": rows,
    }


def _state_table(described: GroupDescription) -> Table:
    table = table_of(
        None, "group", "type", "state", "epoch", "assignment epoch", "assignor", "members",
        right=("epoch", "assignment epoch", "members"),
    )  # fmt: skip
    table.add_row(
        described.group_id,
        described.type,
        described.state,
        _epoch(described.epoch),
        _epoch(described.assignment_epoch),
        described.protocol or "-",
        str(len(described.members)),
    )
    return table


def _members_table(described: GroupDescription) -> Table:
    table = table_of(
        f"{described.group_id}  {described.state}", "member", "instance", "client", "host",
        "protocol", "epoch", "has", "shall have", right=("epoch",),
    )  # fmt: skip
    for m in described.members:
        table.add_row(
            m.member_id,
            m.instance_id or "-",
            m.client_id,
            m.client_host,
            m.kind,
            _epoch(m.epoch),
            tasks_text(m.tasks) if m.kind == STREAMS else _places(assigned_to(described, m)),
            _target_text(described, m),
        )
    return table


def _target_text(described: GroupDescription, member: DescribedMember) -> str:
    if described.type == CLASSIC:
        return "-"
    return tasks_text(member.target_tasks) if member.kind == STREAMS else _places(member.target)


def tasks_text(tasks: dict[str, list[str]]) -> str:
    """``active 0_0 0_2, standby 1_1``: tasks as Kafka Streams names them."""
    return ", ".join(f"{role} {' '.join(names)}" for role, names in tasks.items()) or "-"


def _offsets_table(described: GroupDescription, rows: list[dict[str, Any]]) -> Table:
    title = f"{described.group_id}  {described.state}  {described.protocol}  {count_of(described)}"
    table = table_of(
        title, "topic", "partition", "committed", "end", "lag", "behind", "member", "client",
        right=("partition", "committed", "end", "lag", "behind"),
    )  # fmt: skip
    if described.type == SHARE:
        for name in ("in flight", "acquired", "deliveries"):
            table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _add_deliveries(
    connected: Connected, described: GroupDescription, rows: list[dict[str, Any]]
) -> None:
    """Add three columns to the rows, with what the leaders of the partitions know."""
    places = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    found = deliveries_of(connected, described.group_id, places)
    for place, row in zip(places, rows, strict=True):
        own = found.get(place)
        row["in_flight"] = None if own is None else own.in_flight
        row["acquired"] = None if own is None else own.acquired
        row["deliveries"] = None if own is None else own.deliveries


def deliveries_text(deliveries: dict[str, int] | None) -> str:
    """``90 once, 8 × 2, 2 × 5``: records, and how often each was delivered."""
    if deliveries is None:
        return "-"
    told = [f"{n} once" if times == "1" else f"{n} × {times}" for times, n in deliveries.items()]
    return ", ".join(told) or "none"


def _cells(row: dict[str, Any]) -> list[str]:
    shown = {**row, "seconds": seconds_text(row["seconds"])}
    if "deliveries" in row:
        shown["deliveries"] = deliveries_text(row["deliveries"])
    return ["-" if value is None else str(value) for value in shown.values()]


def _epoch(epoch: int) -> str:
    return "-" if epoch == -1 else str(epoch)


def _places(partitions: list[TopicPartition]) -> str:
    """``topic:0,1``, one after the other."""
    topics = by_topic(sorted(partitions))
    return " ".join(f"{t}:{','.join(map(str, parts))}" for t, parts in topics.items()) or "-"


app.command("reset-offsets")(group_changes.reset_offsets)
app.command()(group_changes.delete)
app.command("delete-offsets")(group_changes.forget_offsets)
app.command("remove-members")(group_changes.remove_members)


def count_of(described: GroupDescription) -> str:
    """In words."""
    count = len(described.members)
    return f"{count} member{'s' if count != 1 else ''}"
