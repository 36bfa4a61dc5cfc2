"""Points at which a fault or a scheduler takes part in the calls on a simulated disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class DiskHooks:
    """The hooks of one disk."""

    __slots__ = ("on_call", "on_change")

    def __init__(self) -> None:
        self.on_change: Callable[[str], None] | None = None
        """Called with the path before each call that changes or syncs something; it may raise."""
        self.on_call: Callable[[], None] | None = None
        """Called before each call of the job that runs now: it may stop the job for a while."""

    def lie_in_wait(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change` before each change, until `stop_waiting`. One at a time may wait."""
        assert self.on_change is None, "another fault waits"
        self.on_change = on_change

    def stop_waiting(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change` no more."""
        if self.on_change is on_change:
            self.on_change = None

    @contextmanager
    def interrupting(self, on_call: Callable[[], None] | None) -> Iterator[None]:
        """Call `on_call` before each call within the block; None calls nothing."""
        former, self.on_call = self.on_call, on_call
        yield
        self.on_call = former
