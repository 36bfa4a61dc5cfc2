"""The operator's session with the ensemble, from a machine that never fails."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.client.network.tasks import TaskOutcome
from barnabas.sim.world.process import SimProcess
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.migration.znode_walk import Znodes, ZnodeWalk
from barnabas.zookeeper.operations import Multi
from barnabas.zookeeper.session import SessionSettings
from barnabas.zookeeper.session_keeper import SessionKeeper


class ZnodeClient:
    """Reads all znodes and submits transactions, each of which ends or fails."""

    def __init__(self, process: SimProcess, connect: str) -> None:
        self._sessions = SessionKeeper(process, process.zookeeper, SessionSettings(connect, 6_000))
        self._sessions.open()

    @property
    def session(self) -> int:
        return self._sessions.id

    async def read(self) -> Znodes:
        """Raises `ZooKeeperError`."""
        found: TaskOutcome[Znodes] = TaskOutcome()
        ZnodeWalk(self._sessions, found.complete).start("/")
        return await found

    async def write(self, transactions: Sequence[Multi]) -> None:
        """Raises the `ZooKeeperError` of the first that fails, or whose outcome is not known."""
        for transaction in transactions:
            done: TaskOutcome[object] = TaskOutcome()
            self._sessions.submit(transaction, done.complete)
            answer = await done
            assert not isinstance(answer, ZooKeeperError), "it completes with a failure"
