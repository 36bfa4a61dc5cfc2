"""Requests that wait until a new coordinator has caught up: until all that it loaded is committed.

The wait lasts as long as a write may take, at most. A request that is refused at once is asked again by its
client after a tenth of a second or so, and some clients give up after the third time; the high watermark of a
new leader takes as long as its followers need for two fetches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

from barnabas.ports import call_all
from barnabas.wire.errors import ErrorCode, KafkaError

Then = Callable[[KafkaError | None], None]
"""Called with None once the coordinator has caught up, or with why it has not."""


class Latecomers:
    """The requests that wait for one coordinator, in the order in which they came, which is that of their
    deadlines."""

    __slots__ = ("_patience_ms", "_waiting")

    def __init__(self, patience_ms: int) -> None:
        """`patience_ms` is the longest time that a request waits."""
        self._patience_ms = patience_ms
        self._waiting: deque[tuple[float, Then]] = deque()

    def __repr__(self) -> str:
        return f"Latecomers({len(self)})"

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, then: Then, now_ms: float) -> None:
        """Call `then` once, when the wait is over."""
        self._waiting.append((now_ms + self._patience_ms, then))

    def deadline_ms(self) -> float:
        """The deadline of the first request; infinite if none waits."""
        return self._waiting[0][0] if self._waiting else inf

    def admit(self) -> None:
        """The coordinator has caught up."""
        call_all(self._taken(None))

    def refuse_all(self, error: KafkaError) -> None:
        """The coordinator ends before it has caught up."""
        call_all(self._taken(error))

    def refuse_late(self, now_ms: float) -> None:
        """Refuse the requests whose deadline has passed; their clients ask again."""
        text = "the coordinator has records that are not committed yet"
        late = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)
        call_all(self._taken(late, now_ms))

    def _taken(
        self, answer: KafkaError | None, until_ms: float = inf
    ) -> Iterator[Callable[[], None]]:
        while self._waiting and self._waiting[0][0] <= until_ms:
            yield partial(self._waiting.popleft()[1], answer)
