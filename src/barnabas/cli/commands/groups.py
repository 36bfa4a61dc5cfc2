"""``barnabas groups``: list and describe consumer groups, with how far behind they are; what changes them is
in `commands.group_changes`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from barnabas.cli.commands import group_changes
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.client.consumers.assignors import PROTOCOL_TYPE, read_assignment
from barnabas.client.groups import DescribedMember, GroupDescription
from barnabas.host.client import Connected
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.codec import MalformedError

app = typer.Typer(help="List, describe, move and delete consumer groups.", no_args_is_help=True)


Types = Annotated[
    list[str], typer.Option("--type", help="Only groups of this type: classic or consumer.")
]
States = Annotated[
    list[str], typer.Option("--state", help="Only groups in this state: Stable, Empty, ...")
]


@app.command("list")
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
    """Members, what each reads, committed offsets and the lag behind the end."""
    with cluster(bootstrap, data) as connected:
        described = connected.call(connected.admin.describe_group(group))
        rows = progress(connected, described) if offsets or not (members or state) else []
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
            _places(assigned_to(described, m)),
            _places(m.target) if described.type == "consumer" else "-",
        )
    return table


def _offsets_table(described: GroupDescription, rows: list[dict[str, Any]]) -> Table:
    title = f"{described.group_id}  {described.state}  {described.protocol}  {count_of(described)}"
    table = table_of(
        title, "topic", "partition", "committed", "end", "lag", "member", "client",
        right=("partition", "committed", "end", "lag"),
    )  # fmt: skip
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row.values()))
    return table


def _epoch(epoch: int) -> str:
    return "-" if epoch == -1 else str(epoch)


def _places(partitions: list[TopicPartition]) -> str:
    """``topic:0,1``, one after the other."""
    topics = by_topic(sorted(partitions))
    return " ".join(f"{t}:{','.join(map(str, parts))}" for t, parts in topics.items()) or "-"


def assigned_to(described: GroupDescription, member: DescribedMember) -> list[TopicPartition]:
    """The partitions of a member; nothing where its assignment is in words of its own."""
    if described.type == "consumer":
        return member.assigned
    if described.protocol_type not in (PROTOCOL_TYPE, ""):
        return []
    try:
        return read_assignment(member.assignment)
    except MalformedError:
        return []


app.command("reset-offsets")(group_changes.reset_offsets)
app.command()(group_changes.delete)
app.command("delete-offsets")(group_changes.forget_offsets)


def count_of(described: GroupDescription) -> str:
    """In words."""
    count = len(described.members)
    return f"{count} member{'s' if count != 1 else ''}"


def progress(connected: Connected, described: GroupDescription) -> list[dict[str, Any]]:
    """A row per partition that is committed or assigned; one without a leader has no end."""
    committed = connected.committed(described.group_id)
    holders: dict[TopicPartition, tuple[str, str]] = {}
    for member in described.members:
        for tp in assigned_to(described, member):
            holders[tp] = (member.member_id, member.client_id)
    partitions = sorted({*committed, *holders})
    ends = _ends(connected, partitions)
    rows = []
    for tp in partitions:
        at = committed.get(tp)
        member_id, client_id = holders.get(tp, (None, None))
        end = ends.get(tp)
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": None if at is None else at.offset,
                "end": end,
                "lag": None if at is None or end is None else max(end - at.offset, 0),
                "member": member_id,
                "client": client_id,
            }
        )
    return rows


def _ends(connected: Connected, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The end offsets of partitions with a leader; a request for the others would wait for its time-out."""
    if not partitions:
        return {}
    cluster = connected.client.cluster
    connected.call(cluster.refresh(dict.fromkeys(tp.topic for tp in partitions)))
    led = [tp for tp in partitions if cluster.leader(tp) is not None]
    return {tp: found.offset for tp, found in connected.offsets(led).items()}
