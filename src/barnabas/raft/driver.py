"""One replica of the metadata quorum in the world: performs the machine's effects through ports.

Owns ``<directory>/__cluster_metadata-0`` with its log, ``quorum-state`` and snapshots. A vote is durable
before any message that rests on it leaves; a leader counts its own log only as far as it is synced.
What it does not do: decide (:mod:`barnabas.raft.machine`), interpret records (the `StateMachine`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.ports import Ports
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import StateMachine
from barnabas.raft.transport import Transport
from barnabas.types import Buffer, Endpoint


class QuorumReplica:
    """A voter or an observer. `open` makes one, `start` begins; then everything is callbacks."""

    @classmethod
    def open(
        cls,
        ports: Ports,
        settings: ReplicaSettings,
        directory: str,
        transport: Transport,
        machine: StateMachine,
    ) -> QuorumReplica:
        """Open or create the log below `directory` (a metadata log dir, formatted before) and read
        what was persisted. Blocks on the disk. Raises ``OSError``, ``QuorumStateError``."""
        raise NotImplementedError

    def start(self) -> None:
        """Load the latest snapshot and begin to take part. Callbacks follow from now on."""

    def shutdown(self, on_done: Callable[[], None], timeout_ms: float = 5_000) -> None:
        """Hand over where this is the leader (EndQuorumEpoch), sync, stop."""

    def close(self) -> None:
        """Stop at once, as far as the world is concerned a crash with closed files."""

    @property
    def node_id(self) -> int: ...
    @property
    def leader_id(self) -> int:
        """-1 where unknown. This node itself as soon as it is elected."""
    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's first controller listener is."""
    @property
    def epoch(self) -> int: ...
    @property
    def is_active(self) -> bool:
        """Whether this node leads and its state machine has been told so."""
    @property
    def high_watermark(self) -> int:
        """End of what is committed; -1 where not known yet in this run."""
    @property
    def applied_offset(self) -> int:
        """End of what the state machine has been given (exclusive)."""
    @property
    def log_end_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...

    def append(self, values: Sequence[Buffer]) -> int:
        """Propose records that commit all or none, in one batch; the offset of the last one. Committed
        when `on_commit` has shown it (in the same epoch). Raises ``NotLeaderError``,
        ``BatchTooLargeError``."""
        raise NotImplementedError

    def resign(self, reason: str) -> None:
        """Give up leadership, where this is the leader: others are told at once."""

    def voter_endpoints(self) -> dict[int, Endpoint]:
        """Of the present voter set, by node id."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """State for tools, logs and tests."""
        raise NotImplementedError
