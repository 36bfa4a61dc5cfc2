"""``barnabas groups``: list and describe consumer groups, with how far behind they are; what changes them is
in `commands.group_changes`."""

from __future__ import annotations

from typing import Any

import typer

from barnabas.cli.commands import group_changes
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.client.admin import GroupDescription
from barnabas.client.consumers.assignors import PROTOCOL_TYPE, read_assignment
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.codec import MalformedError

app = typer.Typer(help="List, describe, move and delete consumer groups.", no_args_is_help=True)


@app.command("list")
def list_(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Every group of every broker."""
    with cluster(bootstrap, data) as connected:
        groups = connected.call(connected.admin.list_groups())
    table = table_of(None, "group", "state", "protocol", "type")
    for group in groups:
        table.add_row(group.group_id, group.state, group.protocol_type, group.type)
    show(as_json, groups, table)


@app.command()
def describe(
    group: str = typer.Argument(...),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Members, what each reads, committed offsets and the lag behind the end."""
    with cluster(bootstrap, data) as connected:
        described = connected.call(connected.admin.describe_group(group))
        rows = progress(connected, described)
    title = f"{group}  {described.state}  {described.protocol}  {count_of(described)}"
    table = table_of(
        title, "topic", "partition", "committed", "end", "lag", "member", "client",
        right=("partition", "committed", "end", "lag"),
    )  # fmt: skip
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row.values()))
    members = [
        {"member_id": m.member_id, "client_id": m.client_id, "host": m.client_host}
        for m in described.members
    ]
    whole = {
        "group": group,
        "state": described.state,
        "protocol": described.protocol,
        "members": members,
        "partitions": rows,
    }
    show(as_json, whole, table)


app.command("reset-offsets")(group_changes.reset_offsets)
app.command()(group_changes.delete)
app.command("delete-offsets")(group_changes.forget_offsets)


def count_of(described: GroupDescription) -> str:
    """In words."""
    count = len(described.members)
    return f"{count} member{'s' if count != 1 else ''}"


def progress(connected: Connected, described: GroupDescription) -> list[dict[str, Any]]:
    """A row per partition that is committed or assigned; one that nobody leads has no end."""
    committed = connected.committed(described.group_id)
    holders: dict[TopicPartition, tuple[str, str]] = {}
    for member in described.members:
        if described.protocol_type in (PROTOCOL_TYPE, ""):
            try:
                for tp in read_assignment(member.assignment):
                    holders[tp] = (member.member_id, member.client_id)
            except MalformedError:
                continue  # an assignment in words of its own; members are listed all the same
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
    """Of those that somebody leads: the others' would be waited for until the time is up."""
    if not partitions:
        return {}
    cluster = connected.client.cluster
    connected.call(cluster.refresh(dict.fromkeys(tp.topic for tp in partitions)))
    led = [tp for tp in partitions if cluster.leader(tp) is not None]
    return {tp: found.offset for tp, found in connected.offsets(led).items()}
