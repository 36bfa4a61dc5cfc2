"""What replaces a cluster, its clients and a clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class AnsweringClient:
    """A client whose cluster answers at once; counts how often it was closed."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(cluster=SimpleNamespace(refresh=lambda timeout_ms: None))
        self.closed = 0

    def call(self, asked: Any) -> Any:
        return asked

    def close(self) -> None:
        self.closed += 1


class ClosedUser:
    """Replaces a user's clients, and counts how often they were closed."""

    principal = "User:me"

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Clock:
    """Advances by `step_s` whenever it is asked."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s = 1_000_000.0
        self._step_s = step_s

    def __call__(self) -> float:
        self.now_s += self._step_s
        return self.now_s
