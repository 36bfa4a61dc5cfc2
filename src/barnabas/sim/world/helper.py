"""The helper process beside a simulated node (``ports.Helper``): it answers at once, on the node's own disk,
and dies in some lives: before it begins, between two calls on the disk, or when all is done and the node has
no answer yet. What it had in memory is gone then, and what it wrote stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.log.compaction.compaction_rules import OffsetMap
from barnabas.log.compaction.compactor import SERVICE, answering
from barnabas.ports import HelperDied

if TYPE_CHECKING:
    from barnabas.sim.world.process import SimProcess

DEATH_RATES = (0.0, 0.0, 0.1, 0.5)
"""In how many of its calls it dies, in one life of the node or another."""
CALLS_MAX = 40
"""On the disk, before it dies."""


class Died(BaseException):
    """Within the helper: nothing there handles it."""


class DyingDisk:
    """The disk as the helper sees it, for so many calls; for ever where that is 0."""

    def __init__(self, helper: SimHelper, left: int) -> None:
        self._helper = helper
        self._disk = helper.process.disk
        self.left = left

    def __getattr__(self, name: str) -> Any:
        if self._helper.disk is not self:
            raise Died
        if self.left:
            self.left -= 1
            if not self.left:
                raise Died
        return getattr(self._disk, name)


class SimHelper:
    """The helper of one process."""

    def __init__(self, process: SimProcess) -> None:
        self.process = process
        self._rng = process.rng("helper")
        self._rate = self._rng.choice(DEATH_RATES) if process.machine.lives_differ else 0.0
        self.disk: DyingDisk | None = None
        """The disk that it has; None where no helper runs."""
        self._answer: Callable[[bytes], bytes] | None = None

    def call(self, service: str, request: bytes) -> bytes:
        assert service == SERVICE
        totals = self.process.world.totals
        totals["calls of helpers"] += 1
        if self.disk is None or self._answer is None:
            self.disk = DyingDisk(self, 0)
            self._answer = answering(self.disk, OffsetMap)
        life = self.disk
        dies = self._rng.random() < self._rate
        if dies:
            life.left = self._rng.randrange(CALLS_MAX)
        try:
            if dies and not life.left:
                raise Died
            answer = self._answer(request)
            if dies or self.disk is not life:
                raise Died
        except Died:
            if self.disk is life:
                self.disk = None
            totals["helpers that died"] += 1
            raise HelperDied("in the middle") from None
        return answer

    def close(self) -> None:
        self.disk = None
