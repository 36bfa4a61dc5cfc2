"""``barnabas tail``: many topics side by side, as they come."""

from __future__ import annotations

import re
import sys

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster
from barnabas.cli.failure import Failure
from barnabas.cli.moments import parse_moment
from barnabas.cli.records import options
from barnabas.cli.records.consuming import wall_ms
from barnabas.cli.records.read_range import starts_at, starts_from
from barnabas.cli.records.record_filter import RecordFilter
from barnabas.cli.records.record_lines import chosen_format, with_options
from barnabas.cli.records.tailing import FollowedTopics, TailPrinter, follow
from barnabas.types import TopicPartition


def command(
    topics: list[str] = typer.Argument(None, metavar="TOPIC...", show_default=False),
    include: options.Include = None,
    from_time: options.FromTime = None,
    last: int = typer.Option(
        0, "--last", "-l", min=0, help="Begin so many records before the ends."
    ),
    max_records: options.MaxRecords = None,
    key: options.FilterKey = "",
    header: options.FilterHeader = "",
    path: options.FilterPath = "",
    form: options.Format = None,
    raw: options.Raw = False,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print the records of many topics as they come, each behind its topic, partition and offset. Topics and
    partitions that come later are followed as well."""
    if not topics and include is None:
        raise Failure("name topics, or --include with a regular expression", USAGE)
    if from_time is not None and last:
        raise Failure("give one of --from and --last", USAGE)
    try:
        pattern = None if include is None else re.compile(include)
    except re.error as fault:
        raise Failure(f"{include!r} is no regular expression: {fault}", USAGE) from fault
    is_terminal = sys.stdout.isatty()
    try:
        chosen = chosen_format(form, as_json=as_json)
        shown = with_options(chosen, null=None, is_raw=raw or not is_terminal, registry=None)
        with cluster(bootstrap, data) as connected:
            began_ms = wall_ms()
            first_ms = None if from_time is None else parse_moment(from_time, began_ms)

            def starts(
                partitions: list[TopicPartition], *, is_late: bool
            ) -> dict[TopicPartition, int]:
                at_ms = began_ms if first_ms is None and is_late and not last else first_ms
                if at_ms is not None:
                    return starts_from(connected, partitions, at_ms)
                return starts_at(connected, partitions, f"-{last}")

            printer = TailPrinter(
                shown.line(connected),
                is_coloured=is_terminal,
                is_named=form is None and not as_json,
                wanted=RecordFilter(key, header, path),
            )
            followed = FollowedTopics(frozenset(topics or ()), pattern)
            follow(connected, followed, starts, printer, max_records)
    except ValueError as fault:
        raise Failure(str(fault), USAGE) from fault
