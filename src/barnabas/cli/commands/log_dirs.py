"""``barnabas log dirs``: which replica is in which log directory of a broker; moving them (KIP-113)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import typer

from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    answer,
    cluster,
    show,
    table_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import counted
from barnabas.cli.progress import ProgressLine, has_onlooker
from barnabas.cli.watching import watched
from barnabas.host.client import Connected
from barnabas.types import by_topic, is_int32
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest

app = typer.Typer(help="Replicas and the log directories they stand in.", no_args_is_help=True)
POLL_S = 0.2


@app.command()
@watched
def describe(
    broker: list[int] = typer.Option([], "--broker", "-n", help="Only these; may be repeated."),
    topic: list[str] = typer.Option([], "--topic", "-t", help="Only these; may be repeated."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Every log directory with its replicas, their sizes, and how far copies have come."""
    with cluster(bootstrap, data) as connected:
        ids = broker or [known.node_id for known in connected.describe_cluster().brokers]
        rows = [row for node in sorted(ids) for row in _described(connected, node)]
    wanted = [
        {**row, "replicas": [r for r in row["replicas"] if not topic or r["topic"] in topic]}
        for row in rows
    ]
    table = table_of(
        None, "broker", "directory", "replica", "bytes", "lag", "", right=("bytes", "lag")
    )
    for row in wanted:
        state = row["reason"] or row["error"] or counted(len(row["replicas"]), "replica")
        table.add_row(str(row["broker"]), row["directory"], state, "", "", "")
        for replica in row["replicas"]:
            table.add_row(
                "",
                "",
                f"{replica['topic']}-{replica['partition']}",
                str(replica["bytes"]),
                str(replica["lag"]),
                "on its way here" if replica["future"] else "",
            )
    show(as_json, wanted, table)


@app.command()
def move(
    replica: list[str] = typer.Argument(..., help="As flights-0; may be repeated."),
    broker: int = typer.Option(..., "--broker", "-n", help="The broker that has them."),
    to: str = typer.Option(..., "--to", help="One of its log.dirs."),
    wait: bool = typer.Option(False, "--wait", "-w", help="Until they are there."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Move replicas to another log directory of their broker; where they are moving there already, or
    are there, nothing changes."""
    names = [_name_of(text) for text in replica]
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=to,
                topics=[
                    AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(names).items()
                ],
            )
        ]
    )
    with cluster(bootstrap, data) as connected:
        moved = connected.call(connected.client.ask_node(broker, request))
        refused = [
            f"{topic.topic_name}-{part.partition_index}: {ErrorCode(part.error_code).name}"
            for topic in moved.results
            for part in topic.partitions
            if part.error_code
        ]
        if refused:
            raise Failure("; ".join(refused))
        if wait:
            _wait(connected, broker, to, set(names), is_shown=has_onlooker(as_json))
    one, many = ("is in", "are in") if wait else ("goes to", "go to")
    verb = one if len(names) == 1 else many
    answer(
        as_json,
        {"broker": broker, "directory": to, "replicas": replica, "are_there": wait},
        f"{counted(len(names), 'replica')} {verb} {to} of broker {broker}",
    )


def _name_of(text: str) -> tuple[str, int]:
    topic, _, index = text.rpartition("-")
    if not topic or not is_int32(index):
        raise Failure(f"a replica is named as flights-0, not {text!r}", USAGE)
    return topic, int(index)


def _wait(
    connected: Connected, broker: int, path: str, names: set[tuple[str, int]], *, is_shown: bool
) -> None:
    """Stay until the replicas are in the directory, with their bytes that are there as progress. Raises
    `Failure`."""
    with ProgressLine("bytes", is_shown=is_shown) as line:
        while True:
            coming = _coming(_described(connected, broker), path, names)
            if not coming.left:
                return
            line.update(coming.copied, coming.total)
            time.sleep(POLL_S)


class Coming(NamedTuple):
    """How far copies of replicas are on their way to a directory."""

    left: int
    """Replicas that are not there yet."""
    copied: int
    """Bytes of all that are in the directory."""
    total: int
    """Bytes that they have there and where they come from, at the most."""


def _coming(rows: Sequence[dict[str, Any]], path: str, names: set[tuple[str, int]]) -> Coming:
    """How far they are, by the directories of the broker. Raises `Failure` where the directory has failed, or
    a replica does not move there any more."""
    found = {row["directory"]: row for row in rows}[path]
    if found["error"]:
        raise Failure(f"{path}: {found['reason'] or found['error']}")
    there = {(r["topic"], r["partition"]): r for r in found["replicas"]}
    for topic, index in sorted(names - there.keys()):
        raise Failure(f"{topic}-{index} does not move to {path} any more")
    largest: dict[tuple[str, int], int] = {}
    for replica in (replica for row in rows for replica in row["replicas"]):
        name = replica["topic"], replica["partition"]
        largest[name] = max(largest.get(name, 0), replica["bytes"])
    return Coming(
        sum(there[name]["future"] for name in names),
        sum(there[name]["bytes"] for name in names),
        sum(largest[name] for name in names),
    )


def _described(connected: Connected, broker: int) -> list[dict[str, Any]]:
    answer = connected.call(connected.client.ask_node(broker, DescribeLogDirsRequest(topics=None)))
    reasons = {offline.log_dir: offline.reason for offline in answer.offline_reasons}
    return [
        {
            "broker": broker,
            "directory": result.log_dir,
            "error": ErrorCode(result.error_code).name if result.error_code else "",
            "reason": reasons.get(result.log_dir, ""),
            "replicas": [
                {
                    "topic": topic.name,
                    "partition": part.partition_index,
                    "bytes": part.partition_size,
                    "lag": part.offset_lag,
                    "future": part.is_future_key,
                }
                for topic in result.topics
                for part in topic.partitions
            ],
        }
        for result in answer.results
    ]
