"""``barnabas cluster events``: what the controllers decided and refused, with their reasons.

Decisions are read from the metadata log itself. Refusals write no record: every controller is asked
for those it remembers (a tagged field of ours on DescribeCluster; an Apache Kafka controller skips
it and tells none). In ZooKeeper mode every broker is asked for what it did as the controller. `--follow`
continues until it is interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

import typer

from barnabas.cli.connection.connect import USAGE, Bootstrap, Data, cluster, event_line
from barnabas.cli.connection.controller_events import ControllerEvents
from barnabas.cli.connection.metadata_log_reader import (
    FoundQuorum,
    MetadataLogReader,
    NoMetadataLog,
)
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.metadata.views.cluster_events import KINDS, ClusterEvent, EventReader
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest

CONTROLLERS = 2
"""Endpoint type of DescribeCluster."""
FOLLOW_MS = 500
"""How long a fetch is held where nothing happens; how often refusals are asked for."""
REQUEST_TIMEOUT_MS = 5_000.0
NO_OFFSET = -1
"""The offset of a refusal, which has no record."""


def events(
    kind: list[str] = typer.Option([], "--kind", "-k", help=f"Only these: {', '.join(KINDS)}."),
    about: str = typer.Option("", "--about", "-a", help="Only subjects with this in their name."),
    last: int = typer.Option(
        0, "--last", "-n", min=0, help="Only so many of the newest to begin with."
    ),
    follow: bool = typer.Option(False, "--follow", "-f", help="Continue with what happens next."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line."),
) -> None:
    """Every decision with its reason, and what was refused."""
    unknown = sorted(set(kind) - set(KINDS))
    if unknown:
        raise Failure(f"--kind is one of {', '.join(KINDS)}, not {unknown[0]!r}", USAGE)

    def print_events(found: Iterable[ClusterEvent]) -> None:
        for event in found:
            line = json.dumps(event.as_dict()) if as_json else event_line(event)
            say(line)
        sys.stdout.flush()

    def wanted(found: Iterable[ClusterEvent]) -> list[ClusterEvent]:
        return [e for e in found if (not kind or e.kind in kind) and about in e.subject]

    with cluster(bootstrap, data) as connected:
        read = _source(connected)
        chosen = wanted(read(0))
        print_events(chosen[-last:] if last else chosen)
        while follow:
            print_events(wanted(read(FOLLOW_MS)))


def _source(connected: Connected) -> Callable[[int], list[ClusterEvent]]:
    """Reads what is new, by date; where nothing is it may wait for so many milliseconds."""
    try:
        log = MetadataLogReader(connected)
    except NoMetadataLog:
        return _of_brokers(connected)
    reader, refusals = EventReader(), RefusalReader(connected)

    def read(wait_ms: int) -> list[ClusterEvent]:
        if wait_ms:
            return log.read(reader, wait_ms) + refusals.read(log.quorum)
        found = refusals.read(log.quorum)
        while not log.at_end:
            found += log.read(reader)
        for silent in refusals.silent:
            say(f"controller {silent} does not answer: its refusals are missing", err=True)
        return sorted(found, key=lambda event: event.at_ms)

    return read


def _of_brokers(connected: Connected) -> Callable[[int], list[ClusterEvent]]:
    """The events of a cluster in ZooKeeper mode: what its brokers remember of having been the controller."""
    events = ControllerEvents(connected)

    def read(wait_ms: int) -> list[ClusterEvent]:
        if wait_ms:
            connected.run_for(wait_ms)
        found = events.read()
        for silent in events.silent if not wait_ms else ():
            say(f"broker {silent} does not answer: its events are missing", err=True)
        return found

    return read


class RefusalReader:
    """Asks the controllers for what they refused since it asked last."""

    def __init__(self, connected: Connected) -> None:
        self._connected = connected
        self._last: dict[int, int] = {}
        """Number of the last refusal told, by controller."""
        self.silent: list[int] = []

    def read(self, quorum: FoundQuorum) -> list[ClusterEvent]:
        """In order of their dates."""
        self.silent = []
        found: list[ClusterEvent] = []
        for controller, at in quorum.controllers.items():
            request = DescribeClusterRequest(
                endpoint_type=CONTROLLERS, refusals_after=self._last.get(controller, -1)
            )
            sent = self._connected.client.send(at, request, timeout_ms=REQUEST_TIMEOUT_MS)
            try:
                response = self._connected.call(sent)
            except (ChannelError, KafkaError):
                self.silent.append(controller)
                continue
            for result in response.refusals:
                self._last[controller] = result.number
                found.append(
                    ClusterEvent(
                        NO_OFFSET,
                        result.at_ms,
                        "refusal",
                        result.subject,
                        result.code,
                        result.reason,
                    )
                )
        return sorted(found, key=lambda event: event.at_ms)
