"""In each controller epoch at most one controller writes, and each of its writes is conditional on the epoch.

The session that raises ``/controller_epoch`` is the controller of the new epoch. Until the next election only
this session may write the controller's znodes: topics, states of partitions, configurations, blocks of
producer ids. Each of these transactions has to check the version of the epoch's znode.

Where a KRaft controller has raised it (KIP-866), each has to replace ``/migration``, too, at the version that
this controller has left there, and in its name: such a controller may have another session by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.sim.history import Violation
from barnabas.sim.zookeeper.transactions import CommittedTransaction
from barnabas.sim.zookeeper_mode.written_znodes import CHROOT, WrittenZnodes, ZnodeRule, operations
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CONTROLLER_EPOCH,
    MIGRATION,
    PRODUCER_IDS,
    ControllerEpochZnode,
    MigrationZnode,
)
from barnabas.zookeeper.layout.config_znodes import CONFIG, ENTITY_TYPES
from barnabas.zookeeper.layout.topic_znodes import STATE_PATH, TOPICS, PartitionStateZnode
from barnabas.zookeeper.operations import CheckVersion, Create, Delete, SetData

CONFIGURED = tuple(f"{CONFIG}/{kind}/" for kind in ENTITY_TYPES)
EPOCH_PATH = CHROOT + CONTROLLER_EPOCH


class OneControllerWrites(ZnodeRule):
    def __init__(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """`is_stopped`: whether a claim was made for the copy of a stopped cluster. No controller writes
        then, and the command that writes what the log says does not renew the claim."""
        self._is_stopped = is_stopped
        self.epoch = 0
        self.session = 0
        """The session of the controller of `epoch`."""
        self.claim: tuple[int, int] | None = None
        """Id and quorum epoch of the KRaft controller that has claimed `epoch`; None for a broker."""

    def on_transaction(
        self, written: WrittenZnodes, entry: CommittedTransaction, result: object
    ) -> None:
        parts = operations(entry.request)
        for one in parts:
            if isinstance(one, SetData) and one.path == EPOCH_PATH:
                self._on_election(entry, ControllerEpochZnode.decode(one.path, one.data).epoch)
                self.claim = _claim(parts)
                return
        paths = [path for one in parts if (path := _controllers_path(one))]
        if not paths:
            return
        where = f"zxid {entry.zxid:#x}, which writes {paths[0]} in controller epoch {self.epoch}"
        if not any(_checks_epoch(one) for one in parts):
            raise Violation(f"{where}: it is not conditional on the epoch")
        is_claims = self.claim is not None and not (self._is_stopped() and self.claim[1] == 0)
        if is_claims and _claim(parts) != self.claim:
            raise Violation(
                f"{where}: {_claim(parts)} wrote it, and {self.claim} has claimed the znodes"
            )
        if self.claim is None and entry.session != self.session:
            raise Violation(
                f"{where}: session {entry.session:#x} wrote it, and the controller's is"
                f" {self.session:#x}"
            )
        for one in parts:
            if isinstance(one, (Create, SetData)) and STATE_PATH.fullmatch(_below(one.path)):
                state = PartitionStateZnode.decode(_below(one.path), one.data)
                if state.controller_epoch != self.epoch:
                    raise Violation(f"{where}: {one.path} says epoch {state.controller_epoch}")

    def _on_election(self, entry: CommittedTransaction, epoch: int) -> None:
        if epoch <= self.epoch:
            raise Violation(f"zxid {entry.zxid:#x}: controller epoch {epoch} after {self.epoch}")
        self.epoch, self.session = epoch, entry.session


def _checks_epoch(one: object) -> bool:
    return isinstance(one, CheckVersion) and one.path == EPOCH_PATH and one.version >= 0


def _claim(parts: Sequence[object]) -> tuple[int, int] | None:
    """Id and quorum epoch of the KRaft controller that keeps its claim in a transaction."""
    for one in parts:
        if isinstance(one, (Create, SetData)) and _below(one.path) == MIGRATION:
            mark = MigrationZnode.decode(MIGRATION, one.data)
            return mark.controller_id, mark.controller_epoch
    return None


def _below(path: str) -> str:
    return path.removeprefix(CHROOT)


def _controllers_path(one: object) -> str:
    """The path of a write that only controllers make; empty for any other operation."""
    if not isinstance(one, (Create, SetData, Delete)):
        return ""
    path = _below(one.path)
    if path.startswith(f"{TOPICS}/") or path.startswith(CONFIGURED):
        return path
    return path if path == PRODUCER_IDS and isinstance(one, SetData) else ""
