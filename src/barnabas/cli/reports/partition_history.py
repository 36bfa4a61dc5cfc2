"""Why partitions and replicas are as they are: what happened last to each, read off the metadata log, or
asked of the controllers of ZooKeeper mode.

Under a quorum a replica is Online or Offline, as Metadata says, and why is the last event of its broker. In
ZooKeeper mode the controller tells each state by name with its reason, also of topics that are being deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.cli.connection.controller_events import (
    ControllerEvents,
    ReportedState,
    states_of,
)
from barnabas.cli.connection.metadata_log_reader import MetadataLogReader, NoMetadataLog
from barnabas.cli.failure import Failure
from barnabas.cli.moments import date_text
from barnabas.cli.plain_text import say
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.host.client import Connected
from barnabas.metadata.image.partition_states import OFFLINE, ONLINE, STATES
from barnabas.metadata.image.topic import NO_LEADER
from barnabas.metadata.views.partition_moves import (
    PartitionMove,
    PartitionStateChange,
    StateReader,
)

OWN = -1
"""In place of a broker: the partition's own state."""
KINDS = ("election", "isr", "reassignment", "partition")
Key = tuple[str, int]


class PartitionHistory:
    """The history of some topics; each of its parts may be missing."""

    def __init__(self) -> None:
        self.changes: Mapping[Key, PartitionStateChange] = {}
        self.moves: Mapping[Key, PartitionMove] = {}
        self.states: Mapping[tuple[str, int, int], ReportedState] = {}
        """The states by topic, index and broker (`OWN`: of the partition), where ZooKeeper coordinates
        the cluster."""
        self.brokers: Mapping[int, PartitionStateChange] = {}

    def add_to(self, rows: Sequence[dict[str, Any]], view: TopicMetadata) -> None:
        """Each partition's last change and last move, None where they are not known any more, and the states
        of its replicas."""
        for row in rows:
            key = view.name, row["partition"]
            change, move = self.changes.get(key), self.moves.get(key)
            row["last_change"] = None if change is None else change._asdict()
            row["last_move"] = None if move is None else move._asdict()
            own = self.states.get((*key, OWN))
            if own is not None:
                row["reason"], row["at_ms"] = own.reason, own.at_ms
            offline = view.partitions[row["partition"]].offline
            row["replica_states"] = [
                {"broker": broker, **self._replica(key, broker, broker in offline)._asdict()}
                for broker in row["replicas"]
            ]

    def _replica(self, key: Key, broker: int, is_offline: bool) -> ReportedState:
        reported = self.states.get((*key, broker))
        if reported is not None:
            return reported
        change = self.brokers.get(broker)
        if not is_offline:
            return ReportedState(ONLINE, "", -1)
        if change is None:
            return ReportedState(OFFLINE, "", -1)
        why = f"broker {broker}: {change}"
        return ReportedState(OFFLINE, why, change.at_ms)


def topics_going(
    states: Mapping[tuple[str, int, int], ReportedState],
) -> dict[str, list[dict[str, Any]]]:
    """The partitions of each topic that is being deleted, with the states of their replicas."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for (topic, index, broker), reported in states.items():
        rows = found.setdefault(topic, {})
        row = rows.setdefault(index, {"partition": index, "replica_states": []})
        if broker == OWN:
            row.update(reported._asdict())
        else:
            row["replica_states"].append({"broker": broker, **reported._asdict()})
    return {topic: list(rows.values()) for topic, rows in found.items()}


def history_of(
    connected: Connected, views: Sequence[TopicMetadata], names: Sequence[str] | None
) -> PartitionHistory:
    """The history of the topics `views`, or of all where `names` is None. With what is missing goes a
    word on standard error."""
    history = PartitionHistory()
    reader = StateReader(None if names is None else {view.topic_id: view.name for view in views})
    try:
        log = MetadataLogReader(connected)
        while not log.at_end:
            log.read(reader)
        history.changes, history.moves, history.brokers = (
            reader.changes, reader.moves, reader.brokers,
        )  # fmt: skip
    except NoMetadataLog:
        _ask_controllers(connected, history, names or [view.name for view in views])
    except Failure as failure:
        say(f"reasons are missing: {failure}", err=True)
    return history


def _ask_controllers(connected: Connected, history: PartitionHistory, names: Sequence[str]) -> None:
    history.states = states_of(connected, names)
    changes: dict[Key, PartitionStateChange] = {}
    moves: dict[Key, PartitionMove] = {}
    for event in ControllerEvents(connected).read():
        name, _, index = event.subject.rpartition("-")
        if not index.isdecimal():
            continue
        key = name, int(index)
        if event.kind in KINDS:
            changes[key] = PartitionStateChange(
                event.change, event.reason, event.at_ms, event.offset
            )
        elif event.kind == "state" and (*key, OWN) in history.states:
            before, _, after = event.change.partition(" → ")
            if before in STATES:  # else it is a replica's
                leader = NO_LEADER
                moves[key] = PartitionMove(
                    before, after, leader, event.reason, event.at_ms, event.offset
                )
    history.changes, history.moves = changes, moves


def lines_of(topic: str, rows: Sequence[Mapping[str, Any]], *, online: bool) -> list[str]:
    """A sentence for each replica that is not Online, or (`online`) for every partition and replica whose
    state is known with its reason."""
    lines = []
    for row in rows:
        name = f"{topic}-{row['partition']}"
        if online and "reason" in row:
            lines.append(f"{name}: {_state_text(row)}")
        for one in row.get("replica_states", ()):
            if online or one["state"] != ONLINE:
                lines.append(f"{name} on broker {one['broker']}: {_state_text(one)}")
    return lines


def _state_text(answer: Mapping[str, Any]) -> str:
    """State, since when, why."""
    since = (
        f" since {date_text(answer['at_ms'], '%Y-%m-%d %H:%M:%S')}" if answer["at_ms"] >= 0 else ""
    )
    why = f": {answer['reason']}" if answer["reason"] else ""
    return f"{answer['state']}{since}{why}"
