"""The quorum as ``barnabas quorum describe`` tells it: Kafka's figures and columns of kafka-metadata-quorum.

Pure: from a DescribeQuorum response to rows and sentences. Lag is counted in records behind the leader's
log end; timestamps are milliseconds since 1970, -1 where nothing is known. Source: KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from barnabas.types import ZERO_UUID, Endpoint, uuid_text

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One line of ``--replication``."""

    node_id: int
    directory_id: str | None
    """None where it is not known: static voters that did not tell, or an old leader."""
    log_end_offset: int
    lag: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    status: str
    """Leader, Follower or Observer."""
    endpoints: tuple[str, ...] = ()
    """``LISTENER://host:port`` of a voter."""

    @property
    def identity(self) -> str:
        """The id, directory and endpoints, as ``--status`` names them."""
        parts = [str(self.node_id)]
        if self.directory_id is not None:
            parts.append(f"directory {self.directory_id}")
        return ", ".join([*parts, *self.endpoints])

    def as_voter(self) -> dict[str, Any]:
        """Who votes and where it is, for programs."""
        return {
            "node_id": self.node_id,
            "directory_id": self.directory_id,
            "endpoints": list(self.endpoints),
        }


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The quorum as its leader sees it."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    high_watermark: int
    max_follower_lag: int
    """Records that the voter with the shortest log lacks."""
    max_follower_lag_time_ms: int
    """The time since it began to lack records; 0: it lacks none; -1: it has never been caught up."""
    voters: tuple[ReplicaRow, ...]
    observers: tuple[ReplicaRow, ...]

    @property
    def replicas(self) -> Iterator[ReplicaRow]:
        yield from self.voters
        yield from self.observers

    @property
    def is_static(self) -> bool:
        """Whether a configuration says who votes: such voters have no directory ids."""
        return all(voter.directory_id is None for voter in self.voters)

    def following(self, within_ms: int = 3_000) -> set[int]:
        """The voters that fetched lately, and the leader."""
        now = max((voter.last_fetch_timestamp for voter in self.voters), default=0)
        found = {v.node_id for v in self.voters if now - v.last_fetch_timestamp <= within_ms}
        return found | {self.leader_id}

    def status(self) -> list[tuple[str, str]]:
        """(name, value) as kafka-metadata-quorum prints them; lists take a line per entry."""
        lines = [
            ("ClusterId", self.cluster_id),
            ("LeaderId", str(self.leader_id)),
            ("LeaderEpoch", str(self.leader_epoch)),
            ("HighWatermark", str(self.high_watermark)),
            ("MaxFollowerLag", str(self.max_follower_lag)),
            ("MaxFollowerLagTimeMs", str(self.max_follower_lag_time_ms)),
        ]
        for name, rows in (("CurrentVoters", self.voters), ("CurrentObservers", self.observers)):
            lines += [(name if i == 0 else "", row.identity) for i, row in enumerate(rows)]
            if not rows:
                lines.append((name, "none"))
        return lines


def view_of(response: Any, cluster_id: str) -> QuorumView:
    """From a `DescribeQuorumResponse` without errors."""
    part = response.topics[0].partitions[0]
    listeners = {
        node.node_id: tuple(f"{at.name}://{Endpoint(at.host, at.port)}" for at in node.listeners)
        for node in response.nodes
    }
    by_id = {voter.replica_id: voter for voter in part.current_voters}
    leader = by_id.get(part.leader_id)
    # A leader that removed itself still leads but is no voter: use the high watermark as its log end.
    end = leader.log_end_offset if leader is not None else part.high_watermark

    def row(replica: Any, status: str) -> ReplicaRow:
        directory = replica.replica_directory_id
        voter = status != "Observer"
        return ReplicaRow(
            replica.replica_id,
            uuid_text(directory) if directory != ZERO_UUID else None,
            replica.log_end_offset,
            max(end - max(replica.log_end_offset, 0), 0),
            replica.last_fetch_timestamp,
            replica.last_caught_up_timestamp,
            status,
            listeners.get(replica.replica_id, ()) if voter else (),
        )

    voters = tuple(
        row(by_id[node], "Leader" if node == part.leader_id else "Follower")
        for node in sorted(by_id)
    )
    observers = sorted(part.observers, key=lambda o: (o.replica_id, o.replica_directory_id))
    return QuorumView(
        cluster_id,
        part.leader_id,
        part.leader_epoch,
        part.high_watermark,
        max((voter.lag for voter in voters), default=0),
        _lag_time_ms(leader, list(by_id.values())),
        voters,
        tuple(row(observer, "Observer") for observer in observers),
    )


def metrics_of(response: Any) -> dict[str, int | float | str]:
    """The metrics that the leader measures of itself, by Kafka's names; empty where it does not tell."""
    return {metric.name: _number(metric.value) for metric in response.metrics}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _lag_time_ms(leader: Any | None, voters: list[Any]) -> int:
    """The lag as kafka-metadata-quorum counts it: of the voter with the shortest log."""
    slowest = min(voters, key=lambda voter: voter.log_end_offset, default=None)
    if slowest is None or leader is None:
        return UNKNOWN
    if slowest.log_end_offset >= leader.log_end_offset:
        return 0
    if leader.last_caught_up_timestamp < 0 or slowest.last_caught_up_timestamp < 0:
        return UNKNOWN
    return max(int(leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp), 0)
