"""``barnabas consume``: records of topics to standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

import typer

from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    cluster,
    command_config,
    registry_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.moments import parse_moment
from barnabas.cli.records import options
from barnabas.cli.records.consuming import Printing, print_partitions, pump, wall_ms
from barnabas.cli.records.partition_choice import chosen, matched
from barnabas.cli.records.read_range import ReadRange, ends_of, starts_at, starts_from
from barnabas.cli.records.record_filter import RecordFilter
from barnabas.cli.records.record_lines import chosen_format, with_options
from barnabas.cli.records.registered_values import RegisteredValues
from barnabas.cli.records.sharing import SharedPrinting, checked_kind, print_shared
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchSettings
from barnabas.client.consumers.group_member import TopicPattern
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.host.client import Connected
from barnabas.types import TopicPartition


class ReadingBounds(NamedTuple):
    """The options that say where reading begins and ends."""

    from_beginning: bool
    from_time: str | None
    offset: str | None
    exit_at_end: bool
    to_time: str | None
    to_offset: int | None

    @property
    def has_end(self) -> bool:
        return self.exit_at_end or self.to_time is not None or self.to_offset is not None

    def check(self, in_group: bool, partition: list[str]) -> None:
        """Raises `Failure` for options that contradict each other."""
        if sum((self.from_beginning, self.from_time is not None, self.offset is not None)) > 1:
            raise Failure("give one of --from-beginning, --from and --offset", USAGE)
        own = (self.from_time, self.offset, self.to_time, self.to_offset)
        if in_group and (partition or any(given is not None for given in own)):
            raise Failure("a group chooses partitions and offsets itself", USAGE)

    def range(
        self, connected: Connected, partitions: list[TopicPartition], committed: bool = False
    ) -> ReadRange:
        """The end of what is read; of committed records, before the first open transaction. Raises
        ``ValueError``."""
        found = ReadRange()
        if self.exit_at_end:
            found = ReadRange(ends_of(connected, partitions, read_committed=committed))
        if self.to_offset is not None:
            found.narrow(dict.fromkeys(partitions, self.to_offset))
        if self.to_time is not None:
            found.end_at_time(connected, partitions, self.to_time, wall_ms())
        return found

    def starts(
        self, connected: Connected, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The offset at which each partition begins. Raises ``ValueError``."""
        if self.from_time is not None:
            return starts_from(connected, partitions, parse_moment(self.from_time, wall_ms()))
        if self.offset is not None:
            return starts_at(connected, partitions, self.offset)
        return dict.fromkeys(partitions, EARLIEST if self.reset == "earliest" else LATEST)

    @property
    def reset(self) -> str:
        """The ``auto.offset.reset``: what ends nowhere begins at the end."""
        return "earliest" if self.from_beginning or self.has_end else "latest"


def _registered(given: str | None, properties: Mapping[str, str]) -> RegisteredValues | None:
    access = registry_of(given, properties)
    return None if access is None else RegisteredValues(*access)


def command(
    topics: list[str] = typer.Argument(None, metavar="TOPIC...", show_default=False),
    include: options.Include = None,
    group: str | None = typer.Option(None, "--group", "-g", help="Share the work and commit."),
    share: options.Share = None,
    on_error: options.OnError = "release",
    from_beginning: bool = typer.Option(False, "--from-beginning", "-f"),
    from_time: options.FromTime = None,
    to_time: options.ToTime = None,
    partition: options.Partitions = [],  # noqa: B006 - typer reads it
    offset: options.Offset = None,
    to_offset: options.ToOffset = None,
    max_records: options.MaxRecords = None,
    exit_at_end: bool = typer.Option(False, "--exit", "-e", help="End where the topic ends now."),
    timeout_s: options.Timeout = None,
    read_committed: bool = typer.Option(False, help="Only committed records."),
    key: options.FilterKey = "",
    header: options.FilterHeader = "",
    path: options.FilterPath = "",
    form: options.Format = None,
    show_keys: options.ShowKeys = False,
    null: options.Null = None,
    raw: options.Raw = False,
    registry: options.Registry = None,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print values; with --json every record whole, one JSON object per line, which `produce
    --json-records` writes again."""
    bounds = ReadingBounds(from_beginning, from_time, offset, exit_at_end, to_time, to_offset)
    bounds.check(bool(group or share), partition)
    if bool(topics) == (include is not None):
        raise Failure("name topics, or --include with a regular expression", USAGE)
    settings = ConsumerSettings(bounds.reset, FetchSettings(read_committed=read_committed))
    wanted = RecordFilter(key, header, path)
    own = (group, include, from_beginning, exit_at_end, read_committed, wanted != RecordFilter())
    error_kind = checked_kind(on_error, others=share is not None and any(own))
    try:
        values = _registered(registry, command_config(data, bootstrap))
        shown = with_options(
            chosen_format(form, as_json=as_json, keys=show_keys),
            null=null,
            is_raw=raw or not sys.stdout.isatty(),
            registry=values,
        )
        with cluster(bootstrap, data) as connected:
            if share is not None:
                bounded = (max_records, timeout_s)
                judged_by = values if registry else None  # a profile's registry rejects nothing
                shared = SharedPrinting(shown.line(connected), error_kind, judged_by, *bounded)
                print_shared(connected, share, topics, shared)
                return
            pattern = None if include is None else TopicPattern(include)
            topics = topics if pattern is None else matched(connected, pattern)
            # A group may wait for topics that do not exist yet.
            some = chosen(connected, topics, partition) if exit_at_end or not group else []
            printing = Printing(
                shown.line(connected), bounds.range(connected, some, read_committed),
                wanted, max_records, timeout_s, commits=bool(group),
            )  # fmt: skip
            if group:
                consumer = connected.consumer(group, settings)
                consumer.inner.subscribe(topics if pattern is None else pattern)
                pump(connected, consumer, printing)
            else:
                starts = bounds.starts(connected, some)
                print_partitions(connected, starts, printing, shown, settings)
    except ValueError as fault:
        raise Failure(str(fault), USAGE) from fault
