"""``barnabas groups reset-offsets | delete | delete-offsets | remove-members``: what Kafka's tools for groups
change.

A plan is made first and shown: resetting is done only with `--execute`, as with Kafka's tool; deleting asks.
Offsets of a group can be set and groups deleted only while they have no members: a refusal names those.
What a share group has "committed" is its start offset: all records before it are acknowledged or archived.

Source: KIP-122, KIP-229, KIP-496, KIP-932, KIP-345; Kafka's ConsumerGroupCommand, ShareGroupCommand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from barnabas.cli.confirming import DryRun, Yes, confirm
from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    cluster,
    sentence,
    show,
    table_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.moments import parse_date, parse_duration
from barnabas.cli.plain_text import say
from barnabas.client.group_offsets import (
    alter_share_starts,
    delete_share_starts,
    remove_member,
    share_starts,
)
from barnabas.client.groups import SHARE, DescribedMember, GroupDescription
from barnabas.client.offsets import EARLIEST, LATEST, CommittedOffset, GroupIdentity, commit
from barnabas.client.operations import delete_group, delete_offsets
from barnabas.host.client import Connected
from barnabas.types import TopicPartition, is_int32, is_int64
from barnabas.wire.errors import ErrorCode, KafkaError

REMOVED = "removed"
NAMED_MAX = 5
"""Members that a refusal names."""
_TOPIC = typer.Option(
    [], "--topic", "-t", metavar="NAME[:0,1]", help="All of it, or these partitions; repeatable."
)


class Target(NamedTuple):
    """The offset to which a partition goes, and what there is to say of it."""

    offset: int
    note: str = ""


class Wish(NamedTuple):
    """The one way that the options choose: its name and what is given with it."""

    way: str
    value: Any


def reset_offsets(
    group: str = typer.Argument(...),
    topic: list[str] = _TOPIC,
    all_topics: bool = typer.Option(False, help="All partitions that the group has committed."),
    to_earliest: bool = typer.Option(False, "--to-earliest", help="Where the log begins."),
    to_latest: bool = typer.Option(False, "--to-latest", help="Where the log ends."),
    to_current: bool = typer.Option(False, "--to-current", help="What is committed."),
    to_datetime: str | None = typer.Option(
        None, "--to-datetime", metavar="2026-11-24T17:00:00", help="UTC where no zone is given."
    ),
    by_duration: str | None = typer.Option(
        None, "--by-duration", metavar="PT1H|1h", help="So long before now."
    ),
    shift_by: int | None = typer.Option(None, "--shift-by", metavar="N", help="Negative: back."),
    to_offset: int | None = typer.Option(None, "--to-offset", min=0),
    from_file: Path | None = typer.Option(
        None, "--from-file", help="Lines of topic,partition,offset, as --export writes them."
    ),
    execute: bool = typer.Option(False, "--execute", help="Do it; else it is only shown."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only show it: what holds by itself."),
    export: bool = typer.Option(False, "--export", help="Print topic,partition,offset lines."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Move a group without members to other offsets."""
    if execute and dry_run:
        raise Failure("say --execute or --dry-run, not both", USAGE)
    wish = wish_of(
        to_earliest=to_earliest or None, to_latest=to_latest or None, to_current=to_current or None,
        to_datetime=to_datetime, by_duration=by_duration, shift_by=shift_by, to_offset=to_offset,
        from_file=from_file,
    )  # fmt: skip
    if bool(topic) + all_topics + (wish.way == "from_file") != 1:
        raise Failure("say which partitions: --topic NAME[:0,1] or --all-topics", USAGE)
    with cluster(bootstrap, data) as connected:
        described = _group(connected, group)
        committed = _committed(connected, described, group)
        if wish.way == "from_file":
            partitions = sorted(wish.value)
        else:
            partitions = _partitions(connected, topic) if topic else sorted(committed)
        if not partitions:
            raise Failure(f"group {group} has committed nothing: name a --topic")
        targets = targets_of(connected, wish, partitions, committed)
        _require_empty(described, group, "cannot be moved", ignore=not execute)
        if execute:
            _move(connected, described, group, targets)
    if export:
        for tp, target in targets.items():
            say(f"{tp.topic},{tp.partition},{target.offset}")
        return
    _show_reset(as_json, group, targets, committed, execute)


def delete(
    groups: list[str] = typer.Argument(..., metavar="GROUP..."),
    yes: bool = Yes,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups without members, with all that they have committed."""
    rows: list[dict[str, Any]] = []
    with cluster(bootstrap, data) as connected:
        found = {group: _group(connected, group) for group in groups}
        for group, described in found.items():
            if described is None:
                raise Failure(f"there is no group {group}")
            _require_empty(described, group, "cannot be deleted")
        counts = {
            group: len(_committed(connected, described, group))
            for group, described in found.items()
        }
        if not dry_run:
            confirm(f"Delete {', '.join(groups)} with {sum(counts.values())} offsets?", yes)
        for group in found:
            outcome = "would be deleted"
            if not dry_run:
                connected.call(delete_group(connected.client, group))
                outcome = "deleted"
            rows.append({"group": group, "offsets": counts[group], "outcome": outcome})
    table = table_of(None, "group", "offsets", "outcome", right=("offsets",))
    for row in rows:
        table.add_row(*map(str, row.values()))
    show(as_json, rows, table)


def forget_offsets(
    group: str = typer.Argument(...),
    topic: list[str] = _TOPIC,
    yes: bool = Yes,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Forget what a group has committed for topics that none of its members subscribes to."""
    if not topic:
        raise Failure("say which: --topic NAME[:0,1]", USAGE)
    with cluster(bootstrap, data) as connected:
        described = _group(connected, group)
        if described is None:
            raise Failure(f"there is no group {group}")
        committed = _committed(connected, described, group)
        partitions = [tp for tp in _partitions(connected, topic) if tp in committed]
        if not partitions:
            raise Failure(f"group {group} has committed nothing there")
        outcomes = dict.fromkeys(partitions, "would be forgotten")
        refused = False
        if not dry_run:
            confirm(f"Forget {len(partitions)} offsets of {group}?", yes)
            answer = _forget(connected, described, topic, partitions)
            for tp, error in answer.items():
                outcomes[tp] = "forgotten" if error is None else _why_kept(error, described)
                refused = refused or error is not None
    table = table_of(None, "topic", "partition", "committed", "outcome", right=("partition",))
    rows = []
    for tp, outcome in outcomes.items():
        at = committed[tp].offset
        rows.append(
            {"topic": tp.topic, "partition": tp.partition, "committed": at, "outcome": outcome}
        )
        table.add_row(tp.topic, str(tp.partition), str(at), outcome)
    show(as_json, rows, table)
    if refused:
        raise typer.Exit(1)


def remove_members(
    group: str = typer.Argument(...),
    member: list[str] = typer.Option([], "--member", "-m", help="By member id; repeatable."),
    instance: list[str] = typer.Option(
        [], "--instance", "-i", help="A static member, by its group.instance.id; repeatable."
    ),
    every: bool = typer.Option(False, "--all", help="All members."),
    reason: str = typer.Option("removed by an operator", "--reason", help="For brokers' logs."),
    yes: bool = Yes,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Have members leave a group, as if they had left themselves; what they read goes to the others. One
    that still runs joins again."""
    if bool(member or instance) == every:
        raise Failure("say which: --member ID, --instance ID, or --all", USAGE)
    rows: list[dict[str, Any]] = []
    with cluster(bootstrap, data) as connected:
        described = _group(connected, group)
        if described is None:
            raise Failure(f"there is no group {group}")
        chosen = [
            m
            for m in described.members
            if every or m.member_id in member or (m.instance_id or "") in instance
        ]
        known = {name for m in chosen for name in (m.member_id, m.instance_id)}
        if missing := [name for name in (*member, *instance) if name not in known]:
            raise Failure(f"group {group} has no member {', '.join(missing)}")
        if chosen and not dry_run:
            confirm(f"Remove {len(chosen)} of {len(described.members)} members of {group}?", yes)
        for m in chosen:
            outcome = "would be removed"
            if not dry_run:
                outcome = _removed(connected, group, m, reason)
            row = {"member": m.member_id, "instance": m.instance_id, "client": m.client_id}
            rows.append({**row, "outcome": outcome})
    table = table_of(None, "member", "instance", "client", "outcome")
    for row in rows:
        table.add_row(*(str(value or "-") for value in row.values()))
    show(as_json, rows, table)
    if not dry_run and any(row["outcome"] != REMOVED for row in rows):
        raise typer.Exit(1)


def _removed(connected: Connected, group: str, member: DescribedMember, reason: str) -> str:
    try:
        connected.call(remove_member(connected.client, group, member, reason))
    except KafkaError as error:
        return sentence(error)
    return REMOVED


def wish_of(**given: Any) -> Wish:
    """The one of these that is given, read. Raises `Failure`."""
    chosen = [Wish(way, value) for way, value in given.items() if value is not None]
    if len(chosen) != 1:
        ways = ", ".join("--" + way.replace("_", "-") for way in given)
        raise Failure(f"say where to: one of {ways}", USAGE)
    way, value = chosen[0]
    try:
        if way == "to_datetime":
            value = parse_date(value)
        elif way == "by_duration":
            value = time.time_ns() // 1_000_000 - parse_duration(value)
        elif way == "from_file":
            value = _offsets_in(value)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    return Wish(way, value)


def _offsets_in(file: Path) -> dict[TopicPartition, int]:
    """Raises `Failure`, ``ValueError``."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = {}
    for line in lines:
        parts = [part.strip().strip('"') for part in line.split(",")]
        if len(parts) != 3 or not is_int32(parts[1]) or not is_int64(parts[2]):
            raise ValueError(f"{file}: a line is topic,partition,offset, not {line!r}")
        found[TopicPartition(parts[0], int(parts[1]))] = int(parts[2])
    return found


def targets_of(
    connected: Connected,
    wish: Wish,
    partitions: Sequence[TopicPartition],
    committed: dict[TopicPartition, CommittedOffset],
) -> dict[TopicPartition, Target]:
    """The targets by partition, within its log. Raises `KafkaError` for a partition that is not there."""
    first = {tp: at.offset for tp, at in connected.offsets(partitions, EARLIEST).items()}
    last = {tp: at.offset for tp, at in connected.offsets(partitions, LATEST).items()}
    wanted: dict[TopicPartition, int | None]
    if wish.way in ("to_datetime", "by_duration"):
        found = connected.offsets(partitions, wish.value)
        wanted = {tp: found[tp].offset for tp in partitions}
        return {
            tp: Target(last[tp], "no record is that young: the end") if at < 0 else Target(at)
            for tp, at in wanted.items()
            if at is not None
        }
    at_now = {tp: committed[tp].offset if tp in committed else None for tp in partitions}
    if wish.way == "from_file":
        wanted = {tp: wish.value[tp] for tp in partitions}
    elif wish.way == "to_earliest":
        wanted = dict(first)
    elif wish.way == "to_latest":
        wanted = dict(last)
    elif wish.way == "to_current":
        wanted = at_now
    elif wish.way == "shift_by":
        wanted = {tp: None if at is None else at + wish.value for tp, at in at_now.items()}
    else:
        wanted = dict.fromkeys(partitions, wish.value)
    return {tp: _within(wanted[tp], first[tp], last[tp]) for tp in partitions}


def _within(wanted: int | None, first: int, last: int) -> Target:
    """The target as in Kafka's tool: nothing committed means the end, and what is outside of the log its
    nearer end."""
    if wanted is None:
        return Target(last, "nothing is committed: the end")
    if wanted < first:
        return Target(first, f"{wanted} is before the log's begin")
    if wanted > last:
        return Target(last, f"{wanted} is beyond the log's end")
    return Target(wanted)


def _partitions(connected: Connected, topics: Sequence[str]) -> list[TopicPartition]:
    """The partitions of ``NAME`` or ``NAME:0,1`` items. Raises `Failure`, `KafkaError`."""
    chosen: list[TopicPartition] = []
    for item in topics:
        name, colon, indexes = item.partition(":")
        known = connected.partitions_of([name])
        if not colon:
            chosen += known
            continue
        for index in indexes.split(","):
            at = TopicPartition(name, int(index) if is_int32(index) else -1)
            if at not in known:
                raise Failure(f"there is no partition {index} of {name}")
            chosen.append(at)
    return sorted(set(chosen))


def _committed(
    connected: Connected, described: GroupDescription | None, group: str
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that a group has committed; of a share group those where it begins."""
    if described is None or described.type != SHARE:
        return connected.committed(group)
    starts = connected.call(share_starts(connected.client, group))
    return {tp: CommittedOffset(start.offset) for tp, start in starts.items()}


def _move(
    connected: Connected,
    described: GroupDescription | None,
    group: str,
    targets: dict[TopicPartition, Target],
) -> None:
    if described is not None and described.type == SHARE:
        starts = {tp: target.offset for tp, target in targets.items()}
        connected.call(alter_share_starts(connected.client, group, starts))
        return
    offsets = {tp: CommittedOffset(target.offset) for tp, target in targets.items()}
    connected.call(commit(connected.client, GroupIdentity(group), offsets))


def _forget(
    connected: Connected,
    described: GroupDescription,
    topics: Sequence[str],
    partitions: Sequence[TopicPartition],
) -> dict[TopicPartition, KafkaError | None]:
    """The refusal of each partition, or None. Raises `Failure` for a part of a share group's topic."""
    client, group = connected.client, described.group_id
    if described.type != SHARE:
        return connected.call(delete_offsets(client, group, partitions))
    if parts := [name for name in topics if ":" in name]:
        raise Failure(f"a share group forgets whole topics only, not {', '.join(parts)}", USAGE)
    answer = connected.call(delete_share_starts(client, group, topics))
    by_topic = {tp.topic: error for tp, error in answer.items()}
    return {tp: by_topic.get(tp.topic) for tp in partitions}


def _group(connected: Connected, group: str) -> GroupDescription | None:
    """None where there is none."""
    try:
        described = connected.call(connected.admin.describe_group(group))
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise
    return None if described.state == "Dead" else described


def _require_empty(
    described: GroupDescription | None, group: str, what: str, *, ignore: bool = False
) -> None:
    """Raises `Failure` with the members; `ignore` only says it."""
    if described is None or not described.members:
        return
    text = f"group {group} {what}: it is {described.state} with {members_of(described)}"
    if not ignore:
        raise Failure(f"{text}; stop what reads in it first")
    say(f"as it is now it would be refused: {text}", err=True)


def members_of(described: GroupDescription) -> str:
    """The members by name and place, the first few of many."""
    names = [
        f"{m.instance_id or m.member_id} ({m.client_id} at {m.client_host.lstrip('/')})"
        for m in described.members
    ]
    more = len(names) - NAMED_MAX
    rest = f" and {more} more" if more > 0 else ""
    count = f"{len(names)} member{'s' if len(names) != 1 else ''}"
    return f"{count}: {', '.join(names[:NAMED_MAX])}{rest}"


def _why_kept(error: KafkaError, described: GroupDescription) -> str:
    if error.code in (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NON_EMPTY_GROUP):
        return f"{error.code.name}: the group reads it, with {members_of(described)}"
    return sentence(error)


def _show_reset(
    as_json: bool,
    group: str,
    targets: dict[TopicPartition, Target],
    committed: dict[TopicPartition, CommittedOffset],
    executed: bool,
) -> None:
    verb = "moved" if executed else "would move (--execute does it)"
    table = table_of(
        f"{group}: {verb}", "topic", "partition", "from", "to", "note",
        right=("partition", "from", "to"),
    )  # fmt: skip
    rows = []
    for tp, target in targets.items():
        now = committed[tp].offset if tp in committed else None
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "from": now,
                "to": target.offset,
                "note": target.note,
            }
        )
        table.add_row(
            tp.topic, str(tp.partition), "-" if now is None else str(now), str(target.offset),
            target.note,
        )  # fmt: skip
    show(as_json, {"group": group, "executed": executed, "partitions": rows}, table)
